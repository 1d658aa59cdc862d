// Package rest makes Slurm a wlm.Manager by slurmrestd, Slurm's REST API, in its
// versions v0.0.38 (Slurm 22.05) to v0.0.45 (26.05). Its source are Slurm's own OpenAPI
// documents of these versions, https://slurm.schedmd.com/rest_api.html.
//
// What differs between versions in what is sent is data (version.go); what is answered
// is read so that the shapes of all versions fit (answer.go). Only the few fields that a
// gang needs are read.
//
// An answer that is not understood teaches nothing. In particular, slurmrestd answers
// 500 "Unspecified error" to a bad token, a wrong user and a controller that is down
// alike: nothing is ever concluded from it.
package rest
