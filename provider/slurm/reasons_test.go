package slurm_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/slurm"
)

// All reasons that Slurm 22.05 or 25.11 can print; "None" is no reason.
const allReasons = `Prolog Priority Dependency Resources PartitionNodeLimit PartitionTimeLimit PartitionDown
PartitionInactive JobHeldAdmin JobHeldUser NvidiaImexChannels BeginTime Licenses AssociationJobLimit
AssociationResourceLimit AssociationTimeLimit Reservation ReqNodeNotAvail FrontEndDown SchedDefer NodeDown BadConstraints
SystemFailure JobLaunchFailure NonZeroExitCode RaisedSignal TimeLimit InactiveLimit InvalidAccount InvalidQOS
QOSUsageThreshold QOSJobLimit QOSResourceLimit QOSTimeLimit BlockMaxError BlockFreeAction Cleaning QOSNotAllowed
AccountNotAllowed DependencyNeverSatisfied QOSGrpCpuLimit QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpJobsLimit
QOSGrpMemLimit QOSGrpNodeLimit QOSGrpSubmitJobsLimit QOSGrpWallLimit QOSMaxCpuPerJobLimit QOSMaxCpuMinutesPerJobLimit
QOSMaxNodePerJobLimit QOSMaxWallDurationPerJobLimit QOSMaxCpuPerUserLimit QOSMaxJobsPerUserLimit QOSMaxNodePerUserLimit
QOSMaxSubmitJobPerUserLimit QOSMinCpuNotSatisfied AssocGrpCpuLimit AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit
AssocGrpJobsLimit AssocGrpMemLimit AssocGrpNodeLimit AssocGrpSubmitJobsLimit AssocGrpWallLimit AssocMaxJobsLimit
AssocMaxCpuPerJobLimit AssocMaxCpuMinutesPerJobLimit AssocMaxNodePerJobLimit AssocMaxWallDurationPerJobLimit
AssocMaxSubmitJobLimit JobHoldMaxRequeue JobArrayTaskLimit BurstBufferResources BurstBufferStageIn BurstBufferOperation
PowerNotAvail PowerReserved AssocGrpUnknown AssocGrpUnknownMinutes AssocGrpUnknownRunMinutes AssocMaxUnknownPerJob
AssocMaxUnknownPerNode AssocMaxUnknownMinutesPerJob AssocMaxCpuPerNode AssocGrpMemMinutes AssocGrpMemRunMinutes
AssocMaxMemPerJob AssocMaxMemPerNode AssocMaxMemMinutesPerJob AssocGrpNodeMinutes AssocGrpNodeRunMinutes
AssocMaxNodeMinutesPerJob AssocGrpEnergy AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocMaxEnergyPerJob
AssocMaxEnergyPerNode AssocMaxEnergyMinutesPerJob AssocGrpGRES AssocGrpGRESMinutes AssocGrpGRESRunMinutes
AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxGRESMinutesPerJob AssocGrpLicense AssocGrpLicenseMinutes
AssocGrpLicenseRunMinutes AssocMaxLicensePerJob AssocMaxLicenseMinutesPerJob AssocGrpBB AssocGrpBBMinutes
AssocGrpBBRunMinutes AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBBMinutesPerJob QOSGrpUnknown QOSGrpUnknownMinutes
QOSGrpUnknownRunMinutes QOSMaxUnknownPerJob QOSMaxUnknownPerNode QOSMaxUnknownPerUser QOSMaxUnknownMinutesPerJob
QOSMinUnknown QOSMaxCpuPerNode QOSGrpMemoryMinutes QOSGrpMemoryRunMinutes QOSMaxMemoryPerJob QOSMaxMemoryPerNode
QOSMaxMemoryPerUser QOSMaxMemoryMinutesPerJob QOSMinMemory QOSGrpNodeMinutes QOSGrpNodeRunMinutes
QOSMaxNodeMinutesPerJob QOSMinNode QOSGrpEnergy QOSGrpEnergyMinutes QOSGrpEnergyRunMinutes QOSMaxEnergyPerJob
QOSMaxEnergyPerNode QOSMaxEnergyPerUser QOSMaxEnergyMinutesPerJob QOSMinEnergy QOSGrpGRES QOSGrpGRESMinutes
QOSGrpGRESRunMinutes QOSMaxGRESPerJob QOSMaxGRESPerNode QOSMaxGRESPerUser QOSMaxGRESMinutesPerJob QOSMinGRES
QOSGrpLicense QOSGrpLicenseMinutes QOSGrpLicenseRunMinutes QOSMaxLicensePerJob QOSMaxLicensePerUser
QOSMaxLicenseMinutesPerJob QOSMinLicense QOSGrpBB QOSGrpBBMinutes QOSGrpBBRunMinutes QOSMaxBBPerJob QOSMaxBBPerNode
QOSMaxBBPerUser QOSMinBB DeadLine MaxBBPerAccount MaxCpuPerAccount MaxEnergyPerAccount MaxGRESPerAccount
MaxNodePerAccount MaxLicensePerAccount MaxMemoryPerAccount MaxUnknownPerAccount MaxJobsPerAccount
MaxSubmitJobsPerAccount PartitionConfig AccountingPolicy FedJobLock OutOfMemory MaxMemPerLimit AssocGrpBilling
AssocGrpBillingMinutes AssocGrpBillingRunMinutes AssocMaxBillingPerJob AssocMaxBillingPerNode
AssocMaxBillingMinutesPerJob QOSGrpBilling QOSGrpBillingMinutes QOSGrpBillingRunMinutes QOSMaxBillingPerJob
QOSMaxBillingPerNode QOSMaxBillingPerUser QOSMaxBillingMinutesPerJob MaxBillingPerAccount QOSMinBilling
ReservationDeleted ReservationInvalid Constraints MaxBBRunMinsPerAccount MaxBillingRunMinsPerAccount
MaxCpuRunMinsPerAccount MaxEnergyRunMinsPerAccount MaxGRESRunMinsPerAccount MaxNodeRunMinsPerAccount
MaxLicenseRunMinsPerAccount MaxMemoryRunMinsPerAccount MaxUnknownRunMinsPerAccount MaxBBRunMinsPerUser
MaxBillingRunMinsPerUser MaxCpuRunMinsPerUser MaxEnergyRunMinsPerUser MaxGRESRunMinsPerUser MaxNodeRunMinsPerUser
MaxLicenseRunMinsPerUser MaxMemoryRunMinsPerUser MaxUnknownRunMinsPerUser MaxPoweredUpNodes MpiPortsBusy`

func TestEveryReasonOfSlurmsIsExplained(t *testing.T) {
	used := map[string]bool{}
	for _, reason := range strings.Fields(allReasons) {
		meaning := slurm.Explain(reason)
		assert.NotEmpty(t, meaning, reason)
		used[meaning] = true
	}
	// What slurmctld itself writes beside a reason, squeue shows in its place.
	for _, reason := range []string{"launch_failed_requeued_held", "job_requeued_in_held_state"} {
		used[slurm.Explain(reason)] = true
	}
	for _, r := range slurm.Reasons() {
		assert.True(t, used[r.Meaning], "%s explains nothing that Slurm says", r.Pattern)
	}
}

func TestAReasonIsExplainedHoweverItIsWritten(t *testing.T) {
	tests := map[string]struct{ reason, says string }{
		"with the nodes that are missing":    {"ReqNodeNotAvail, UnavailableNodes:hpc[1-2]", "sinfo -R"},
		"in slurmctld's own words":           {"launch failed requeued held", "scontrol release"},
		"in those words as squeue has them":  {"(launch_failed_requeued_held)", "scontrol release"},
		"a limit on what one job may have":   {"QOSMaxGRESPerJob", "more than one job may have"},
		"a limit on what one user may have":  {"QOSMaxGRESPerUser", "starts by itself"},
		"a limit on what all have for now":   {"AssocGrpGRES", "starts by itself"},
		"minutes that are used up":           {"AssocGrpGRESMinutes", "minutes left"},
		"minutes that running jobs will use": {"AssocGrpGRESRunMinutes", "starts by itself"},
		"a hold by an administrator":         {"JobHeldAdmin", "support"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Contains(t, slurm.Explain(tt.reason), tt.says) })
	}
	for _, reason := range []string{"", "None", "SomethingNew"} {
		assert.Empty(t, slurm.Explain(reason))
	}
}
