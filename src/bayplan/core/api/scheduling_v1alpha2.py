"""The types of scheduling.k8s.io/v1alpha2, which Kubernetes 1.36 serves and 1.37 doesn't: Workloads and PodGroups."""

from __future__ import annotations

from lightkube.core.schema import DictMixin
from lightkube.models.meta_v1 import Condition, ObjectMeta


class GangSchedulingPolicy(DictMixin):
    r"""How the pods of a gang are scheduled.

    **parameters**

    * **minCount** ``int`` - The minimum number of pods that must be placed together.
    """

    minCount: int


class PodGroupSchedulingPolicy(DictMixin):
    r"""How the pods of a group are scheduled; one of the fields is set.

    **parameters**

    * **basic** ``Optional[dict]`` - The pods are scheduled independently.
    * **gang** ``Optional[GangSchedulingPolicy]`` - The pods are placed together or not at all.
    """

    basic: dict | None = None  # type: ignore[type-arg]  # an object without fields
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(DictMixin):
    r"""A topology domain that all pods of a group must be in.

    **parameters**

    * **key** ``str`` - The node label whose values are the domains.
    """

    key: str


class PodGroupSchedulingConstraints(DictMixin):
    r"""What restricts the nodes of a group.

    **parameters**

    * **topology** ``Optional[List[TopologyConstraint]]`` - The topology domain of the group; at most one.
    """

    topology: list[TopologyConstraint] | None = None


class PodGroupResourceClaim(DictMixin):
    r"""A resource claim that the pods of a group may share: an existing one, or one made from a template.

    **parameters**

    * **name** ``str`` - The name by which pods refer to the claim.
    * **resourceClaimName** ``Optional[str]`` - The ResourceClaim.
    * **resourceClaimTemplateName** ``Optional[str]`` - The ResourceClaimTemplate.
    """

    name: str
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class PodGroupResourceClaimStatus(DictMixin):
    r"""The ResourceClaim that was made for a group from a template.

    **parameters**

    * **name** ``str`` - The name of the claim in the group's spec.
    * **resourceClaimName** ``Optional[str]`` - The ResourceClaim.
    """

    name: str
    resourceClaimName: str | None = None


class WorkloadPodGroupTemplateReference(DictMixin):
    r"""A template of a Workload.

    **parameters**

    * **podGroupTemplateName** ``str`` - The name of the template.
    * **workloadName** ``str`` - The name of the Workload.
    """

    podGroupTemplateName: str
    workloadName: str


class PodGroupTemplateReference(DictMixin):
    r"""The template that a group was made from.

    **parameters**

    * **workload** ``Optional[WorkloadPodGroupTemplateReference]`` - A template of a Workload.
    """

    workload: WorkloadPodGroupTemplateReference | None = None


class PodGroupSpec(DictMixin):
    r"""How the pods of a group are scheduled. It is immutable.

    **parameters**

    * **schedulingPolicy** ``PodGroupSchedulingPolicy`` - Whether the pods are placed together.
    * **disruptionMode** ``Optional[str]`` - Whether pods are preempted one by one (Pod, the default) or all together
      (PodGroup).
    * **podGroupTemplateRef** ``Optional[PodGroupTemplateReference]`` - The template that the group was made from.
    * **priority** ``Optional[int]`` - The priority of the group, which the server takes from the priority class.
    * **priorityClassName** ``Optional[str]`` - The priority class of the group.
    * **resourceClaims** ``Optional[List[PodGroupResourceClaim]]`` - The resource claims that the pods may share.
    * **schedulingConstraints** ``Optional[PodGroupSchedulingConstraints]`` - What restricts the nodes of the group.
    """

    schedulingPolicy: PodGroupSchedulingPolicy
    disruptionMode: str | None = None
    podGroupTemplateRef: PodGroupTemplateReference | None = None
    priority: int | None = None
    priorityClassName: str | None = None
    resourceClaims: list[PodGroupResourceClaim] | None = None
    schedulingConstraints: PodGroupSchedulingConstraints | None = None


class PodGroupStatus(DictMixin):
    r"""The state of a group.

    **parameters**

    * **conditions** ``Optional[List[Condition]]`` - PodGroupScheduled says whether the group was placed, and
      DisruptionTarget that its pods are about to be preempted.
    * **resourceClaimStatuses** ``Optional[List[PodGroupResourceClaimStatus]]`` - The claims made from templates.
    """

    conditions: list[Condition] | None = None
    resourceClaimStatuses: list[PodGroupResourceClaimStatus] | None = None


class PodGroup(DictMixin):
    r"""A group of pods that are scheduled with regard to each other.

    **parameters**

    * **spec** ``PodGroupSpec`` - How the pods are scheduled.
    * **apiVersion** ``Optional[str]`` - The version of the API.
    * **kind** ``Optional[str]`` - The kind of the object.
    * **metadata** ``Optional[ObjectMeta]`` - The metadata of the object.
    * **status** ``Optional[PodGroupStatus]`` - The state of the group.
    """

    spec: PodGroupSpec
    apiVersion: str | None = None
    kind: str | None = None
    metadata: ObjectMeta | None = None
    status: PodGroupStatus | None = None

    def __post_init__(self) -> None:
        self.apiVersion = "scheduling.k8s.io/v1alpha2"
        self.kind = "PodGroup"


class PodGroupTemplate(DictMixin):
    r"""A template for PodGroups.

    **parameters**

    * **name** ``str`` - The name of the template, which is unique in the Workload.
    * **schedulingPolicy** ``PodGroupSchedulingPolicy`` - Whether the pods are placed together.
    * **disruptionMode** ``Optional[str]`` - Whether pods are preempted one by one (Pod) or all together (PodGroup).
    * **priority** ``Optional[int]`` - The priority of the groups.
    * **priorityClassName** ``Optional[str]`` - The priority class of the groups.
    * **resourceClaims** ``Optional[List[PodGroupResourceClaim]]`` - The resource claims that the pods may share.
    * **schedulingConstraints** ``Optional[PodGroupSchedulingConstraints]`` - What restricts the nodes of a group.
    """

    name: str
    schedulingPolicy: PodGroupSchedulingPolicy
    disruptionMode: str | None = None
    priority: int | None = None
    priorityClassName: str | None = None
    resourceClaims: list[PodGroupResourceClaim] | None = None
    schedulingConstraints: PodGroupSchedulingConstraints | None = None


class TypedLocalObjectReference(DictMixin):
    r"""An object in the same namespace.

    **parameters**

    * **kind** ``str`` - The kind of the object.
    * **name** ``str`` - The name of the object.
    * **apiGroup** ``Optional[str]`` - The API group of the kind; none for the core group.
    """

    kind: str
    name: str
    apiGroup: str | None = None


class WorkloadSpec(DictMixin):
    r"""The groups that an application consists of. It is immutable.

    **parameters**

    * **podGroupTemplates** ``List[PodGroupTemplate]`` - Templates for the PodGroups; at most eight.
    * **controllerRef** ``Optional[TypedLocalObjectReference]`` - The object that the Workload was made for.
    """

    podGroupTemplates: list[PodGroupTemplate]
    controllerRef: TypedLocalObjectReference | None = None


class Workload(DictMixin):
    r"""An application whose pods are scheduled together: it has templates for its PodGroups.

    **parameters**

    * **spec** ``WorkloadSpec`` - The groups that the application consists of.
    * **apiVersion** ``Optional[str]`` - The version of the API.
    * **kind** ``Optional[str]`` - The kind of the object.
    * **metadata** ``Optional[ObjectMeta]`` - The metadata of the object.
    """

    spec: WorkloadSpec
    apiVersion: str | None = None
    kind: str | None = None
    metadata: ObjectMeta | None = None

    def __post_init__(self) -> None:
        self.apiVersion = "scheduling.k8s.io/v1alpha2"
        self.kind = "Workload"
