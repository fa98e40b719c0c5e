// Reads rank and world size from the environment that the launcher set. Supported are torchrun and others that set RANK
// and WORLD_SIZE, mpirun (Open MPI, MPICH, Intel MPI), and srun.
//   https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
//   https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html
//   https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
#pragma once

#include <map>
#include <optional>
#include <string>

namespace memtune::launch {

using Environment = std::map<std::string, std::string>;
Environment this_environment();

struct LauncherRankEnvironment {
  std::string launcher;                 // for messages: "torchrun", "mpirun" or "srun"
  int rank = 0, size = 1;               // among all processes
  int local_rank = -1, local_size = 0;  // on this machine; -1 and 0 if unknown
  std::string host;                     // of rank 0, or of torchrun's store if store_prefix is set
  int port = 0;
  // Prefix of memtune's keys in the store that torchrun's agent runs at host:port; this process must not listen at that
  // port. If empty, there is no such store and rank 0 listens at host:port itself.
  std::string store_prefix;
  std::string secret = {};  // $MEMTUNE_RANK_SECRET, which strangers do not know; "": none

  bool on_one_machine() const;  // all ranks: by their number, or because rank 0 is at a loopback address
};

// None if this is the only process, or if only one of rank and size is set. If launchers are nested, the inner one
// wins: torchrun before mpirun before srun. Throws UsageError with the variables that are missing or contradict each
// other.
std::optional<LauncherRankEnvironment> read_launch(const Environment& environment);

}  // namespace memtune::launch
