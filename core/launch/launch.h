// Which of several processes this is, as the launcher that started them says in their environment: torchrun (and all
// that set RANK and WORLD_SIZE as it does), mpirun of Open MPI, of MPICH and Intel MPI, srun.
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

struct Launch {
  std::string launcher;                 // "torchrun", "mpirun", "srun": for messages
  int rank = 0, size = 1;               // of all processes
  int local_rank = -1, local_size = 0;  // of this machine; -1, 0: not said
  std::string host;                     // of rank 0, or of the store below
  int port = 0;
  // Of keys in the store that torchrun's agent runs at host:port, which this process must not listen at; "": rank 0
  // listens there.
  std::string store_prefix;

  bool on_one_machine() const { return local_size == size; }  // then rank 0 listens at the loopback device alone
};

// Nothing where this is the only process, or only one of rank and size is set. What stands inside of another is
// believed: torchrun before mpirun before srun. UsageError that names the variables that are missing or contradict each
// other.
std::optional<Launch> read_launch(const Environment& environment);

}  // namespace memtune::launch
