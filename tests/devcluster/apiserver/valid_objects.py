"""A valid object of every kind that the API server serves."""

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID


def signing_request():
    """A PEM certificate request in base64."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(request.public_bytes(Encoding.PEM)).decode()


def named(name="a", **fields):
    return {"metadata": {"name": name, "labels": {"app": "web"}, "annotations": {"a": "b"}}, **fields}


def of(name="a", **spec):
    return named(name, spec=spec)


PROBE = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5}
TERM = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
NODE_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
CONTAINER = {
    "name": "c",
    "image": "i",
    "ports": [{"name": "http", "containerPort": 80}],
    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    "livenessProbe": PROBE,
    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "securityContext": {"runAsUser": 1},
}
POD_SPEC = {
    "containers": [CONTAINER],
    "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
    "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NODE_TERMS},
    },
    "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **TERM}],
    "schedulingGates": [{"name": "a"}],
    "serviceAccountName": "default",
    "securityContext": {"fsGroup": 1},
}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC}
JOB_SPEC = {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
WORKLOAD = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DEVICES = {
    "requests": [{"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": "true"}}]}}],
    "constraints": [{"requests": ["r"], "matchAttribute": "a.b/c"}],
}
EVENT = {
    "reason": "x",
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    "reportingController": "x",
    "reportingComponent": "x",
    "reportingInstance": "y",
    "action": "z",
    "type": "Normal",
    "eventTime": "2026-01-01T00:00:00.000000Z",
}
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
}
WEBHOOK = {
    "name": "pods.example.com",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"service": {"namespace": "default", "name": "w", "path": "/check"}, "caBundle": "YQ=="},
    "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
}
ADMISSION_RULES = {"resourceRules": WEBHOOK["rules"]}
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
SUBJECT = {"kind": "User", "name": "jane"}

VALID_OBJECTS = {
    "Pod": named(spec=POD_SPEC),
    "Node": named(
        spec={"taints": [{"key": "a", "effect": "NoSchedule"}]},
        status={"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    ),
    "Namespace": named("team"),
    "Service": of(ports=[{"port": 80, "name": "http"}], selector={"app": "web"}),
    "Endpoints": named(subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]),
    "PodTemplate": named(template=TEMPLATE),
    "Event": named(**EVENT),
    "ConfigMap": named(data={"a": "b"}),
    "Secret": named(stringData={"a": "b"}),
    "ServiceAccount": named(secrets=[{"name": "s"}]),
    "LimitRange": of(limits=[{"type": "Container", "max": {"cpu": "8", "memory": "8Gi"}, "min": {"cpu": "1m"}}]),
    "ResourceQuota": of(
        hard={"pods": "100", "requests.cpu": "100", "count/configmaps": "100"},
        scopeSelector={"matchExpressions": [{"scopeName": "NotTerminating", "operator": "Exists"}]},
    ),
    "Role": named(rules=[RULE]),
    "ClusterRole": named(
        rules=[RULE], aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"aggregate": "true"}}]}
    ),
    "RoleBinding": named(roleRef={"kind": "Role", "name": "r"}, subjects=[SUBJECT]),
    "ClusterRoleBinding": named(roleRef={"kind": "ClusterRole", "name": "r"}, subjects=[SUBJECT]),
    "CustomResourceDefinition": of(
        "gangs.example.com",
        group="example.com",
        scope="Namespaced",
        names={"kind": "Gang", "plural": "gangs"},
        versions=[VERSION],
    ),
    "Lease": of(holderIdentity="a", leaseDurationSeconds=15),
    "PriorityClass": named(value=5),
    "PodDisruptionBudget": of(maxUnavailable="50%", selector={"matchLabels": {"app": "web"}}),
    "ReplicationController": of(selector={"app": "web"}, template=TEMPLATE),
    "ReplicaSet": named(spec=WORKLOAD),
    "Deployment": of(**WORKLOAD, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}),
    "StatefulSet": of(
        **WORKLOAD, serviceName="web", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": CLAIM_SPEC}]
    ),
    "DaemonSet": of(
        **({key: WORKLOAD[key] for key in ("selector", "template")}), updateStrategy={"type": "RollingUpdate"}
    ),
    "ControllerRevision": named(revision=1, data={"spec": {}}),
    "Job": of(**JOB_SPEC, completions=2, completionMode="Indexed"),
    "CronJob": of(schedule="* * * * *", jobTemplate={"spec": JOB_SPEC}),
    "HorizontalPodAutoscaler": of(
        maxReplicas=3, scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    ),
    "PersistentVolume": of(
        capacity={"storage": "1Gi"},
        accessModes=["ReadWriteOnce"],
        hostPath={"path": "/v"},
        nodeAffinity={"required": NODE_TERMS},
    ),
    "PersistentVolumeClaim": named(spec=CLAIM_SPEC),
    "StorageClass": named(
        provisioner="x", allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]
    ),
    "CSINode": of(drivers=[{"name": "d", "nodeID": "n", "topologyKeys": ["zone"]}]),
    "CSIDriver": of(tokenRequests=[{"audience": "a"}]),
    "CSIStorageCapacity": named(storageClassName="s", capacity="1Gi", nodeTopology={"matchLabels": {"zone": "a"}}),
    "VolumeAttachment": of(attacher="a", nodeName="n", source={"persistentVolumeName": "v"}),
    "DeviceClass": of(selectors=[{"cel": {"expression": "true"}}]),
    "ResourceClaim": of(devices=DEVICES),
    "ResourceClaimTemplate": of(spec={"devices": DEVICES}),
    "ResourceSlice": of(
        driver="d.example.com",
        pool={"name": "p", "generation": 1, "resourceSliceCount": 1},
        nodeSelector=NODE_TERMS,
        devices=[{"name": "d", "attributes": {"a": {"string": "x"}}, "capacity": {"m": {"value": "1Gi"}}}],
    ),
    "EndpointSlice": named(
        addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"]}], ports=[{"name": "http", "port": 80}]
    ),
    "Ingress": of(
        rules=[
            {
                "host": "web.example.com",
                "http": {
                    "paths": [
                        {
                            "path": "/",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": "web", "port": {"number": 80}}},
                        }
                    ]
                },
            }
        ],
        tls=[{"hosts": ["*.example.com"], "secretName": "s"}],
    ),
    "IngressClass": of(controller="example.com/ingress", parameters={"apiGroup": "a.b", "kind": "K", "name": "k"}),
    "NetworkPolicy": of(
        podSelector={"matchLabels": {"app": "web"}},
        ingress=[
            {
                "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
                "ports": [{"port": 80, "endPort": 90}],
            }
        ],
    ),
    "RuntimeClass": named(
        handler="runsc",
        overhead={"podFixed": {"cpu": "100m"}},
        scheduling={"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]},
    ),
    "CertificateSigningRequest": of(request=signing_request(), signerName="example.com/signer", usages=["client auth"]),
    "ValidatingWebhookConfiguration": named(webhooks=[WEBHOOK]),
    "MutatingWebhookConfiguration": named(webhooks=[{**WEBHOOK, "reinvocationPolicy": "IfNeeded"}]),
    "ValidatingAdmissionPolicy": of(
        matchConstraints=ADMISSION_RULES, validations=[{"expression": "true", "message": "m"}]
    ),
    "ValidatingAdmissionPolicyBinding": of(policyName="p", validationActions=["Deny"]),
    "MutatingAdmissionPolicy": of(
        matchConstraints=ADMISSION_RULES,
        reinvocationPolicy="Never",
        mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
    ),
    "MutatingAdmissionPolicyBinding": of(policyName="p"),
    "APIService": of(
        "v1beta1.metrics.example.com",
        group="metrics.example.com",
        version="v1beta1",
        service={"namespace": "default", "name": "metrics"},
        groupPriorityMinimum=100,
        versionPriority=100,
    ),
    "FlowSchema": of(
        priorityLevelConfiguration={"name": "global-default"},
        distinguisherMethod={"type": "ByUser"},
        rules=[
            {
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "default"}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
            }
        ],
    ),
    "PriorityLevelConfiguration": of(type="Limited", limited={"limitResponse": {"type": "Queue", "queuing": {}}}),
    "IPAddress": of("10.0.0.1", parentRef={"resource": "services", "namespace": "default", "name": "s"}),
    "ServiceCIDR": of(cidrs=["10.0.0.0/24"]),
    "VolumeAttributesClass": named(driverName="d.example.com", parameters={"iops": "100"}),
    "Workload": of(podGroupTemplates=[{"name": "t", "schedulingPolicy": {"basic": {}}}]),
    "PodGroup": of(schedulingPolicy={"gang": {"minCount": 2}}),
    "DeviceTaintRule": of(deviceSelector={"driver": "d.io"}, taint={"key": "broken", "effect": "NoExecute"}),
    "CompositePodGroup": of(
        schedulingPolicy={"gang": {"minGroupCount": 2}},
        workloadRef={"workloadName": "train", "templateName": "workers"},
    ),
}
"""By kind."""
