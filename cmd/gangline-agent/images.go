package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gangline/gangline/agent/image"
)

func imagesCommand() *cobra.Command {
	var o image.Options
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Look at an image store, fill it and make room in it",
		Long: `Look at the store of images that pods' containers run from, pull images into it
ahead of time, and remove what nobody uses. Run it on any node that has the
store's filesystem, as a user who may write there: the store's own user or, where
a group shares it, a member of the group.`,
	}
	cmd.PersistentFlags().StringVar(&o.Dir, "store", "", "the store's `directory` (containers.store.dir of the site's configuration, with the user's name in it)")
	_ = cmd.MarkPersistentFlagRequired("store") // it fails only for a flag that there is not
	cmd.AddCommand(imagesListCommand(&o), imagesPruneCommand(&o), imagesPullCommand(&o))
	return cmd
}

// existingStore opens a store that is there. Who only looks must not make one: it would be
// theirs, and closed to the user who is to have it.
func existingStore(o image.Options) (*image.Store, error) {
	if _, err := os.Stat(o.Dir); err != nil {
		return nil, fmt.Errorf("there is no image store: %w", err)
	}
	return image.Open(o)
}

func imagesListCommand(o *image.Options) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images of a store, the one that was used last first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := existingStore(*o)
			if err != nil {
				return err
			}
			entries, err := store.List()
			if err != nil {
				return err
			}
			return printImages(cmd.OutOrStdout(), output, entries)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func imagesPruneCommand(o *image.Options) *cobra.Command {
	var minAge time.Duration
	var maxSize string
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove images that nobody uses",
		Long: `Remove images that no container uses, on any node, and what pulls that were
killed have left behind. Without --max-size all that were not used for --min-age
are removed; with it only as many, the ones that were not used for the longest
time first, as are too many.

The containers of a job that its workload manager has suspended count as users for
15 minutes only: keep --min-age above the time for which jobs are suspended.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := existingStore(*o)
			if err != nil {
				return err
			}
			p := image.Prune{MinAge: minAge, All: maxSize == ""}
			if maxSize != "" {
				size, err := resource.ParseQuantity(maxSize)
				if err != nil {
					return fmt.Errorf("--max-size %q: %w: a quantity such as 500Gi", maxSize, err)
				}
				p.MaxBytes = size.Value()
			}
			report, err := store.Prune(cmd.Context(), p)
			for _, e := range report.Removed {
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s %s %s\n", e.Digest, sizeText(e.Size), strings.Join(e.References, " "))
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d removed, %s left\n", len(report.Removed), sizeText(report.Size))
			return err
		},
	}
	cmd.Flags().DurationVar(&minAge, "min-age", 24*time.Hour, "keep what was used in this `time`")
	cmd.Flags().StringVar(&maxSize, "max-size", "", "remove only what makes the store larger than this `quantity`, as 500Gi")
	return cmd
}

func imagesPullCommand(o *image.Options) *cobra.Command {
	var form, credentials, tool string
	var mirrors []string
	cmd := &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images into a store ahead of time",
		Long: `Pull images into a store, in the form that a runtime takes: tree (Charliecloud,
bubblewrap, podman), sif (Apptainer), squashfs (enroot). It is what an agent would
do for a pod with the pull policy Always. Credentials are read from a file, never
from the command line.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, images []string) error {
			var err error
			if o.Mirrors, err = mirrorsOf(mirrors); err != nil {
				return err
			}
			o.Tool = strings.Fields(tool)
			store, err := image.Open(*o)
			if err != nil {
				return err
			}
			var secret []byte
			if credentials != "" {
				if secret, err = os.ReadFile(credentials); err != nil {
					return fmt.Errorf("reading the credentials: %w", err)
				}
			}
			for _, reference := range images {
				got, release, err := store.Ensure(cmd.Context(), image.Request{
					Reference: reference, Policy: corev1.PullAlways, Credentials: secret, Form: image.Form(form),
					Progress: func(e image.Event) { fmt.Fprintln(cmd.ErrOrStderr(), e.Message) },
				})
				if err != nil {
					return err
				}
				release()
				fmt.Fprintln(cmd.OutOrStdout(), got.ID, got.Path)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&form, "form", string(image.FormTree), "tree, sif or squashfs")
	f.StringVar(&credentials, "credentials", "", "a .dockerconfigjson `file`: who pulls by it makes the image private to those who have a credential too")
	f.StringVar(&o.CredentialsFile, "site-credentials", "", "a .dockerconfigjson `file` that counts for all users (registries.credentialsFile)")
	f.StringArrayVar(&mirrors, "mirror", nil, "`HOST=MIRROR`: ask MIRROR first for images of HOST; may be given several times (registries.mirrors)")
	f.StringArrayVar(&o.Insecure, "insecure", nil, "a `host[:port]` that may be spoken to over HTTP; may be given several times (registries.insecure)")
	f.StringVar(&o.CAFile, "ca-file", "", "a PEM `file` of certificates to be trusted besides the system's (registries.caFile)")
	f.StringVar(&tool, "tool", "", "the site's own `command` for pulling, its words separated by spaces (registries.tool)")
	return cmd
}

func mirrorsOf(flags []string) (map[string][]string, error) {
	mirrors := map[string][]string{}
	for _, f := range flags {
		host, mirror, found := strings.Cut(f, "=")
		if !found {
			return nil, fmt.Errorf("--mirror is HOST=MIRROR, not %q", f)
		}
		mirrors[host] = append(mirrors[host], mirror)
	}
	return mirrors, nil
}

func printImages(out io.Writer, output string, entries []image.Entry) error {
	switch output {
	case "json":
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(entries)
	case "text":
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "DIGEST\tARCH\tSIZE\tFORMS\tLAST USE\tUSED BY\tNAMES")
		for _, e := range entries {
			const short = len("sha256:") + 12
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.Digest[:min(short, len(e.Digest))], e.Arch, sizeText(e.Size),
				strings.Join(e.FormNames(), ","), e.LastUse.Local().Format(time.DateTime), len(e.Users), strings.Join(e.References, " "))
		}
		return table.Flush()
	}
	return fmt.Errorf("--output is text or json, not %q", output)
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	const mega, giga = 1000 * 1000, 1000 * 1000 * 1000
	if n < giga {
		return fmt.Sprintf("%.1f MB", float64(n)/mega)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/giga)
}
