package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used.
type usage struct {
	name string
	cpu  time.Duration
	// rss is all of its memory, own what it shares with no other process, and anonymous what
	// is no file's, in MiB.
	rss, own, anonymous float64
}

// clockTick is the unit of CPU time in /proc (USER_HZ, see proc(5)).
const clockTick = 10 * time.Millisecond

// processes are Gangline's that run from programs below one of the directories, by their
// numbers.
func processes(below ...string) (map[int]usage, error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil, err
	}
	all := map[int]usage{}
	for _, link := range links {
		target, err := os.Readlink(link)
		name := filepath.Base(target)
		ours := slices.ContainsFunc(below, func(dir string) bool { return strings.HasPrefix(target, strings.TrimSuffix(dir, "/")+"/") })
		if err != nil || !ours || !strings.HasPrefix(name, "gangline-") {
			continue // it has ended, or is none of ours
		}
		dir := filepath.Dir(link)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		memory, err := os.ReadFile(filepath.Join(dir, "smaps_rollup"))
		if err != nil {
			continue
		}
		u := usage{name: name}
		if u.cpu, err = cpuTime(stat); err != nil {
			return nil, fmt.Errorf("reading the CPU time of %d: %w", pid, err)
		}
		if u.rss, u.own, u.anonymous, err = memoryOf(string(memory)); err != nil {
			return nil, fmt.Errorf("reading the memory of %d: %w", pid, err)
		}
		all[pid] = u
	}
	return all, nil
}

// cpuTime adds up utime and stime, the 12th and 13th field behind the program's name.
func cpuTime(stat []byte) (time.Duration, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q has too few fields", stat)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// memoryOf reads smaps_rollup; all are in MiB.
func memoryOf(rollup string) (rss, own, anonymous float64, err error) {
	for line := range strings.Lines(rollup) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kB, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return 0, 0, 0, err
		}
		switch fields[0] {
		case "Rss:":
			rss = kB / 1024
		case "Private_Clean:", "Private_Dirty:":
			own += kB / 1024
		case "Anonymous:":
			anonymous = kB / 1024
		}
	}
	return rss, own, anonymous, nil
}
