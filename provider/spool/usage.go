package spool

import (
	"os"
	"path/filepath"
	"time"
)

// Usage is slots/<k>/usage.json: what the slot's pod has used. Its agent writes
// it while the pod runs.
type Usage struct {
	Version int    `json:"version"`
	PodUID  string `json:"podUID"`
	// Time is when it was measured, by the HPC node's clock.
	Time time.Time `json:"time"`
	// Containers are those that run.
	Containers []ContainerUsage `json:"containers"`
	// Devices are the pod's, where they can be asked.
	Devices []DeviceUsage `json:"devices,omitempty"`
}

// ContainerUsage is what one run of a container has used. No field is 0 of a run
// that has been measured.
type ContainerUsage struct {
	Name    string    `json:"name"`
	Run     int       `json:"run"`
	Started time.Time `json:"started"`
	// CPU is the processor time since the start, in nanoseconds. It never goes
	// back. CPURate is how much of it came in each of the last seconds.
	CPU     uint64 `json:"cpu"`
	CPURate uint64 `json:"cpuRate"`
	// WorkingSet and RSS are memory in bytes: that of all processes, what they
	// share counted once; and that which belongs to no file.
	WorkingSet uint64 `json:"workingSet"`
	RSS        uint64 `json:"rss"`
	Processes  int    `json:"processes"`
}

// DeviceUsage is the use of an accelerator.
type DeviceUsage struct {
	Make  string `json:"make"` // "nvidia"
	Model string `json:"model"`
	ID    string `json:"id"`
	// MemoryTotal and MemoryUsed are in bytes; DutyCycle is the percentage of time
	// in which the device worked.
	MemoryTotal uint64 `json:"memoryTotal"`
	MemoryUsed  uint64 `json:"memoryUsed"`
	DutyCycle   uint64 `json:"dutyCycle"`
}

// Usage is the path of slot k's file.
func (d Dir) Usage(k int) string { return filepath.Join(d.Slot(k), "usage.json") }

// maxUsage bounds a usage.json: many are read at once, and the job's user writes
// them.
const maxUsage = 256 << 10

// WriteUsage replaces slot k's usage. It does not wait for the disk, as Write does:
// each pod writes its own several times a minute, and one that is lost is no loss.
func (d Dir) WriteUsage(k int, u Usage) error {
	return write(d.Usage(k), u, func(*os.File) error { return nil })
}
