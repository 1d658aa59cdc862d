package main

import (
	"github.com/spf13/cobra"

	"github.com/gangline/gangline/agent/image/fetch"
	"github.com/gangline/gangline/agent/nodump"
)

// pullCommand is what an agent starts to pull an image, so that it stays small itself.
// Administrators have "images pull".
func pullCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "pull",
		Short:  "Pull an image for an agent (what the agent itself starts)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := nodump.Apply(); err != nil {
				return err
			}
			return fetch.Main(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().Bool("job", false, "read the job from the standard input; there is no other way")
	return cmd
}
