package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkList reads squeue's text of 10,000 jobs, which a virtual node does each second.
func BenchmarkList(b *testing.B) {
	const jobs = 10_000
	var text strings.Builder
	for i := range jobs {
		text.WriteString(strings.Replace(squeueRecord(fmt.Sprint(i+1), "RUNNING"), "1001", fmt.Sprint(1001+i%100), 1))
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	var began, ended syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &began); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		list, err := parseJobs(text.String(), anybody)
		if err != nil || len(list) != jobs {
			b.Fatalf("%d jobs: %v", len(list), err)
		}
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ended); err != nil {
		b.Fatal(err)
	}
	used := ended.Utime.Nano() + ended.Stime.Nano() - began.Utime.Nano() - began.Stime.Nano()
	b.ReportMetric(float64(used)/1e6/float64(b.N), "cpu-ms/op") // which others on the machine do not change
}
