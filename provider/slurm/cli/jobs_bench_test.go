package cli

import (
	"fmt"
	"strings"
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
	for b.Loop() {
		list, err := parseJobs(text.String(), anybody)
		if err != nil || len(list) != jobs {
			b.Fatalf("%d jobs: %v", len(list), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/jobs, "ns/job")
}
