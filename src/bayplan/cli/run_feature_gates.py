"""`--feature-gates`: the feature gates of Kubernetes 1.36 (pkg/features/kube_features.go and libraries), and the values
that Bayplan supports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bayplan.config.suggestions import did_you_mean


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ON = _names(
    """
    DynamicResourceAllocation InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling
    MatchLabelKeysInPodAffinity MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
    NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NominatedNodeNameForExpectation
    OpportunisticBatching PodLevelResources PodSchedulingReadiness SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ SchedulerQueueingHints SidecarContainers VolumeAttributesClass DRAAdminAccess
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
    DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout AllBeta
    """
)
"""Gates of the scheduler that are on by default. They are always on in Bayplan."""

OFF = _names(
    """
    DRADeviceTaintRules DRAListTypeAttributes DRANodeAllocatableResources DRAWorkloadResourceClaims
    SchedulerAsyncAPICalls StorageCapacityScoring TaintTolerationComparisonOperators VolumeLimitScaling AllAlpha
    """
)
"""Gates of the scheduler that are off by default. Bayplan doesn't support them yet."""

WORKLOADS, GANGS = "GenericWorkload", "GangScheduling"
SWITCHES: dict[str, tuple[str, ...]] = {
    WORKLOADS: (),
    GANGS: ("GangScheduling",),
    "TopologyAwareWorkloadScheduling": ("TopologyPlacementGenerator", "PodGroupPodsCount"),
    "WorkloadAwarePreemption": ("WorkloadAwarePreemption",),
}
"""Gates that are off by default and can be enabled, with the plugins that each adds to the default ones."""

NEEDS = {GANGS: WORKLOADS, "TopologyAwareWorkloadScheduling": WORKLOADS, "WorkloadAwarePreemption": GANGS}
"""Gates that require another one."""

OTHERS = _names(
    """
    APIResponseCompression APIServerIdentity APIServerTracing APIServingWithRoutine
    AggregatedDiscoveryRemoveBetaType AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
    AllowOverwriteTerminationGracePeriodSeconds AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs
    AllowUnsafeMalformedObjectDeletion AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
    AuthorizeNodeWithSelectors AuthorizePodWebsocketUpgradeCreatePermission AuthorizeWithSelectors BtreeWatchCache
    CBORServingAndStorage CPUCFSQuotaPeriod CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions
    CPUManagerPolicyOptions CRDObservedGenerationTracking CRDValidationRatcheting CRIListStreaming
    CSIServiceAccountTokenSecrets CSIVolumeHealth ChangeContainerStatusOnKubeletRestart
    ClearingNominatedNodeNameAfterBinding CloudControllerManagerWatchBasedRoutesReconciliation
    CloudControllerManagerWebhook ClusterTrustBundle ClusterTrustBundleProjection ComponentFlagz ComponentStatusz
    ConcurrentWatchObjectDecode ConsistentListFromCache ConstrainedImpersonation ContainerCheckpoint
    ContainerRestartRules ContainerStopSignals ContextualLogging ControllerManagerReleaseLeaderElectionLockOnExit
    CoordinatedLeaderElection CrossNamespaceVolumeDataSource CustomResourceFieldSelectors
    DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DeclarativeValidation
    DeclarativeValidationBeta DeclarativeValidationTakeover DeploymentReplicaSetTerminatingReplicas
    DetectCacheInconsistency DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion
    EnvFiles EventedPLEG ExecProbeTimeout ExtendWebSocketsToKubelet ExternalServiceAccountTokenSigner
    GitRepoVolumeDriver GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance
    HPAScaleToZero HostnameOverride ImageMaximumGCAge ImageVolume ImageVolumeWithDigest
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
    InPlacePodVerticalScalingInitContainers JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy
    JobSuccessPolicy KMSv1 KubeletCgroupDriverFromCRI KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
    KubeletFineGrainedAuthz KubeletInUserNamespace KubeletPSI KubeletPodResourcesDynamicResources
    KubeletPodResourcesGet KubeletPodResourcesListUseActivePods KubeletRegistrationGetOnExistsOnly
    KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders KubeletTracing ListFromCacheSnapshot
    LocalStorageCapacityIsolationFSQuotaMonitoring LogarithmicScaleDown LoggingAlphaOptions LoggingBetaOptions
    LoggingStableOptions ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet MemoryQoS
    MultiCIDRServiceAllocator MutableCSINodeAllocatableCount MutablePVNodeAffinity
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy
    NFTablesProxyMode NativeHistograms NodeLogQuery NodeSwap OpenAPIEnums OrderedNamespaceDeletion
    PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodCertificateRequest
    PodDeletionCost PodLevelResourceManagers PodLifecycleSleepAction PodLifecycleSleepActionAllowZero
    PodLogsQuerySplitStreams PodObservedGenerationTracking PodReadyToStartContainersCondition
    PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets PreferSameTrafficDistribution
    PreventStaticPodAPIReferences ProcMountType QOSReserved RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
    ReduceDefaultCrashLoopBackOffDecay RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
    RelaxedServiceNameValidation ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile
    RemoteRequestHeaderUID ResilientWatchCacheInitialization ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RetryGenerateName RotateKubeletServerCertificate RuntimeClassInImageCriAPI
    SELinuxChangePolicy SELinuxMount SELinuxMountReadWriteOncePod SeparateCacheWatchRPC
    SeparateTaintEvictionController ServiceAccountNodeAudienceRestriction ServiceAccountTokenJTI
    ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
    ServiceCIDRStatusFieldWiping ShardedListAndWatch SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet
    StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
    StatefulSetSemanticRevisionComparison StorageNamespaceIndex StorageVersionAPI StorageVersionHash
    StorageVersionMigrator StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
    StrictIPCIDRValidation StructuredAuthenticationConfiguration
    StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
    SupplementalGroupsPolicy SystemdWatchdog TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions
    TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
    UserNamespacesHostNetworkSupport UserNamespacesSupport WatchCacheInitializationPostStartHook WatchList WinDSR
    WinOverlay WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WindowsHostNetwork WorkloadWithJob
    """
)
"""Gates of other components. They are accepted, so that you can pass the same flags to all components."""

KNOWN = ON | OFF | SWITCHES.keys() | OTHERS
_VALUES = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""Mirrors Go's strconv.ParseBool."""


@dataclass(slots=True)
class Gates:
    """The result of --feature-gates: errors, warnings, and the plugins to add to the default ones."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    plugins: list[str] = field(default_factory=list)


def read_gates(values: Iterable[str]) -> Gates:
    """Read `A=true,B=false,...` (also `kube:A=true`). The last value of a gate applies."""
    gates = Gates()
    problems, warnings = gates.problems, gates.warnings
    switched = dict.fromkeys(SWITCHES, False)
    for name, text in _pairs(values):
        value = _VALUES.get(text)
        if name not in KNOWN:
            problems.append(f"unknown feature gate {name!r}{did_you_mean(name, KNOWN)}")
        elif value is None:
            problems.append(f"{name}: expected true or false, got {text!r}")
        elif name in ON and not value:
            problems.append(f"{name}=false: this feature can't be disabled")
        elif name in OFF and value:
            problems.append(f"{name}=true: this feature is not supported yet")
        elif name in SWITCHES:
            switched[name] = value
    on = [name for name, value in switched.items() if value]
    problems += [f"{name}=true: requires {NEEDS[name]}=true" for name in on if NEEDS.get(name, name) not in on]
    if on and not switched[GANGS] and not problems:
        warnings += [
            f"{name} has no effect without {GANGS}=true, which schedules the pods of a PodGroup together" for name in on
        ]
    elif on and not problems:
        gates.plugins += [plugin for name in on for plugin in SWITCHES[name]]
    return gates


def _pairs(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    for each in ",".join(values).split(","):
        if each.strip():
            name, _, value = each.strip().removeprefix("kube:").partition("=")
            yield name.strip(), value.strip()
