package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var r release
	var platforms, programs, registry string
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.StringVar(&r.root, "root", ".", "directory of the repository")
	flags.StringVar(&r.out, "out", "dist", "directory to write to; what was in it is removed")
	flags.StringVar(&r.version, "version", "", "version; empty for what git describes")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "platforms")
	flags.StringVar(&programs, "programs", "", "only these programs; empty for all")
	flags.BoolVar(&r.quick, "quick", false, "build with the flags of GOFLAGS and with what development has compiled already; not for release")
	flags.BoolVar(&r.dynamic, "dynamic", true, "build gangline-node-dynamic too, which needs a C compiler")
	flags.StringVar(&registry, "push", "", "registry to push the images to, such as ghcr.io/gangline")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if r.root, err = filepath.Abs(r.root); err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return fmt.Errorf("finding the directory to write to: %w", err)
	}
	if r.programs, err = choose(programs); err != nil {
		return err
	}
	for _, p := range strings.Split(platforms, ",") {
		system, architecture, ok := strings.Cut(p, "/")
		if !ok || system != "linux" || architecture == "" {
			return fmt.Errorf("--platforms: %q is not linux/ARCHITECTURE", p)
		}
		r.architectures = append(r.architectures, architecture)
	}
	if err := r.describe(ctx); err != nil {
		return err
	}
	if err := r.make(ctx); err != nil {
		return err
	}
	if registry == "" {
		return nil
	}
	return r.push(ctx, registry)
}
