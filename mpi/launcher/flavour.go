package launcher

import (
	"fmt"
	"regexp"
	"strings"
)

// The protocols by which ranks find each other, as srun's --mpi calls them.
const (
	PMIx = "pmix"
	PMI2 = "pmi2"
)

var pmiName = regexp.MustCompile(`^(pmix(_v[0-9]+)?|pmi2|cray_shasta)$`)

// CheckPMI tells what is wrong with a name of a protocol.
func CheckPMI(name string) error {
	if !pmiName.MatchString(name) {
		return fmt.Errorf("%q is none of pmix, pmix_v4 and the like, pmi2 and cray_shasta", name)
	}
	return nil
}

// SpeaksPMIx tells a protocol of the PMIx family from one of PMI's.
func SpeaksPMIx(name string) bool { return strings.HasPrefix(name, PMIx) }

// flavour is an MPI implementation: by what its launcher says of itself, and by
// the libraries that its programs need.
type flavour struct {
	name, pmi string
	says      []string
	library   *regexp.Regexp
	// launchers are names that only its launchers have.
	launchers []string
}

// flavours are the implementations that are told apart. The number after ".so."
// is the library's ABI: Open MPI's has been 40 since release 3; 12 is that of
// the MPICH ABI initiative, which Intel MPI and others share.
func flavours() []flavour {
	return []flavour{
		{"Open MPI", PMIx, []string{"(Open MPI)", "(OpenRTE)", "prterun", "(PRRTE)"}, regexp.MustCompile(`^libmpi(_cxx|_mpifh|_usempif08|_usempi_ignore_tkr)?(-[a-z]+)?\.so\.(20|40)$`),
			[]string{"mpirun.openmpi", "mpiexec.openmpi", "orterun", "prterun"}},
		{"Intel MPI", PMI2, []string{"Intel(R) MPI"}, nil, nil},
		{"MPICH", PMI2, []string{"HYDRA build details", "MPICH"}, regexp.MustCompile(`^libmp(i|ich|icxx|ifort|ichcxx|ichfort)\.so\.12$`),
			[]string{"mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich"}}, // the first is Intel MPI's too
	}
}

// LaunchersFor are the names of launchers whose programs speak a protocol, be it
// PMIx or PMI2.
func LaunchersFor(pmi string) []string {
	for _, f := range flavours() {
		if f.pmi == pmi && len(f.launchers) > 0 {
			return f.launchers
		}
	}
	return nil
}

// FormOf tells for whose launchers a hostfile was written, as the protocol that
// their programs speak: "name slots=n" is Open MPI's, "name:n" is Hydra's. It tells
// nothing of a file that has neither, or both.
func FormOf(hostfile string) (pmi string) {
	openMPI, hydra := strings.Contains(hostfile, " slots="), hydraHost.MatchString(hostfile)
	switch {
	case openMPI && !hydra:
		return PMIx
	case hydra && !openMPI:
		return PMI2
	}
	return ""
}

var hydraHost = regexp.MustCompile(`(?m)^[^#\s:]+:[0-9]+\s*$`)

// Snares are variables of launchers whose programs speak a protocol: with them a
// program that speaks the other one fails in MPI_Init. Without them it would take
// each rank for a world of its own, without an error, and nobody can tell beforehand
// what is behind a script. To the launcher's own kind of program they mean nothing:
// Hydra gives its ranks PMI_FD, which counts before PMI_PORT, and Open MPI's look for
// a server only where no launcher has started them.
func Snares(pmi string) []string {
	if SpeaksPMIx(pmi) {
		return []string{"PMI_PORT=127.0.0.1:1", "PMI_ID=0"} // nobody listens there
	}
	return []string{"OMPI_MCA_ess_singleton_server=file:/the launcher is not that of the program's MPI, which is Open MPI"}
}

// LauncherFlavour tells from the answer to "mpirun --version" whose launcher it
// is, and which protocol its programs speak.
func LauncherFlavour(version string) (name, pmi string, ok bool) {
	for _, f := range flavours() {
		for _, words := range f.says {
			if strings.Contains(version, words) {
				return f.name, f.pmi, true
			}
		}
	}
	return "", "", false
}

// ProgramFlavour tells the same of a program from the libraries that it is
// linked with. A program that loads its MPI later, as a script does, tells
// nothing.
func ProgramFlavour(libraries []string) (name, pmi string, ok bool) {
	for _, f := range flavours() {
		for _, library := range libraries {
			if f.library != nil && f.library.MatchString(library) {
				return f.name, f.pmi, true
			}
		}
	}
	return "", "", false
}
