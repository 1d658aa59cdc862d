package usage

import (
	"strconv"
	"strings"

	"github.com/gangline/gangline/provider/spool"
)

// NvidiaCommand is the command line that tells of NVIDIA devices, given as
// CUDA_VISIBLE_DEVICES has them: by index, as the program itself sees them, or by
// UUID.
func NvidiaCommand(devices string) []string {
	return []string{
		"nvidia-smi", "--id=" + devices, "--format=csv,noheader,nounits",
		"--query-gpu=uuid,name,utilization.gpu,memory.used,memory.total",
	}
}

// ParseNvidia reads what NvidiaCommand prints. What a device does not tell
// ("[N/A]") is 0.
func ParseNvidia(out string) []spool.DeviceUsage {
	var list []spool.DeviceUsage
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), ",")
		if len(f) != 5 {
			continue
		}
		number := func(i int) uint64 {
			n, err := strconv.ParseUint(strings.TrimSpace(f[i]), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
		list = append(list, spool.DeviceUsage{
			Make: "nvidia", ID: strings.TrimSpace(f[0]), Model: strings.TrimSpace(f[1]),
			DutyCycle: number(2), MemoryUsed: number(3) << 20, MemoryTotal: number(4) << 20,
		})
	}
	return list
}
