package helm

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

// Run is the command line "helm ARGS". What it prints on its standard output is
// returned, and the error of a failed command carries its words.
//
// Helm keeps the settings of its flags for the whole process: calls must not
// overlap, and each names the namespace that it means.
func Run(ctx context.Context, args ...string) (string, error) {
	kube.ManagedFieldsManager = "helm" // as Helm's own main does
	var out strings.Builder
	command, err := helmcmd.NewRootCmd(&out, args, func(bool) {
		slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	})
	if err != nil {
		return "", fmt.Errorf("helm: %w", err)
	}
	command.SetArgs(args)
	command.SetErr(io.Discard) // the error says it all
	if err := command.ExecuteContext(ctx); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w", args[0], err)
	}
	return out.String(), nil
}
