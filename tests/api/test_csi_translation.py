import pytest
from lightkube.models.core_v1 import PersistentVolume
from tests.support.tables import cases

from bayplan.core.api.csi_translation import Untranslatable, in_tree_plugin, translate
from bayplan.core.api.objects import convert

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
KEY = "topology.cinder.csi.openstack.org/zone"


def disk(labels=None, terms=None, **source):
    source = source or {"gcePersistentDisk": {"pdName": "d"}}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms is not None else {}
    document = {"metadata": {"name": "v", "labels": labels or {}}, "spec": {**source, **affinity}}
    return convert(PersistentVolume, document)


def term(**values):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": names} for key, names in values.items()]}


def translated(volume):
    plugin = in_tree_plugin(volume.spec)
    assert plugin is not None
    return translate(volume, plugin)


@pytest.mark.feature("CSI translation: handles")
@cases(
    "volume, driver, handle",
    {
        "GCE": (disk(), "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        "in a zone": (disk({ZONE: "us-a-1"}), "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-a-1/disks/d"),
        "in a region": (
            disk({BETA_ZONE: "us-a-1__us-a-2"}),
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/us-a/disks/d",
        ),
        "EBS": (disk(awsElasticBlockStore={"volumeID": "vol-1"}), "ebs.csi.aws.com", "vol-1"),
        "EBS as a URL": (disk(awsElasticBlockStore={"volumeID": "aws:///vol-1"}), "ebs.csi.aws.com", "vol-1"),
        "Cinder": (disk(cinder={"volumeID": "d"}), "cinder.csi.openstack.org", "d"),
        "Portworx": (disk(portworxVolume={"volumeID": "d"}), "pxd.portworx.com", "d"),
        "Azure": (disk(azureDisk={"diskName": "d", "diskURI": "u", "kind": "Managed"}), "disk.csi.azure.com", "u"),
    },
)
def test_handles(volume, driver, handle):
    found = translated(volume)
    assert (found.driver, found.handle) == (driver, handle)


@pytest.mark.feature("CSI translation: handles")
@cases(
    "volume, problem",
    {
        "zones of two regions": (disk({ZONE: "us-a-1__eu-b-1"}), "multiple or no regions"),
        "malformed zones": (disk({ZONE: "one__two"}), "zone in unexpected format"),
        "EBS": (disk(awsElasticBlockStore={"volumeID": "aws://z/x"}), "Invalid format for AWS volume"),
        "Azure": (disk(azureDisk={"diskName": "d", "diskURI": "u", "kind": "Shared"}), "is not supported"),
    },
)
def test_untranslatable_volume(volume, problem):
    with pytest.raises(Untranslatable, match=problem):
        translated(volume)


@pytest.mark.feature("CSI translation: topology")
@cases(
    "labels, terms, expected",
    {
        "none": ({}, None, None),
        "node affinity": ({}, [term(**{ZONE: ["a"]})], [{KEY: ["a"]}]),
        "beta labels": ({}, [term(**{BETA_ZONE: ["a"]})], [{KEY: ["a"]}]),
        "beta regions": ({}, [term(**{BETA_ZONE: ["a"], BETA_REGION: ["r"]})], [{KEY: ["a"], REGION: ["r"]}]),
        "labels": ({ZONE: "b__a"}, None, [{KEY: ["a", "b"]}]),
        "labels without a zone": ({ZONE: "__"}, None, None),
        "both": ({ZONE: "a"}, [term(k=["1"]), term(k=["2"])], [{"k": ["1"], KEY: ["a"]}, {"k": ["2"], KEY: ["a"]}]),
        "node affinity takes precedence over labels": ({ZONE: "b"}, [term(**{ZONE: ["a"]})], [{KEY: ["a"]}]),
    },
)
def test_topology(labels, terms, expected):
    required = translated(disk(labels, terms, cinder={"volumeID": "d"})).required
    found = None
    if required is not None:
        found = [{each.key: each.values for each in term.matchExpressions} for term in required.nodeSelectorTerms]
    assert found == expected


def test_volumes_of_no_former_plugin():
    assert in_tree_plugin(disk(nfs={"path": "/", "server": "s"}).spec) is None
