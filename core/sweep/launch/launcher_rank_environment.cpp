#include "core/sweep/launch/launcher_rank_environment.h"

#include <unistd.h>

#include <limits>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/sweep/launch/host_list.h"
#include "core/sweep/launch/socket.h"

namespace memtune::launch {
namespace {

constexpr int kMinPort = 20000, kPorts = 12000;  // below the usual ephemeral ports

// Environment variables of one launcher.
struct Names {
  const char *launcher, *rank, *size, *local_rank, *local_size;
};

constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kSrun{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"};

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // An empty variable counts as unset.
  bool has(const std::string& name) const { return !text(name).empty(); }
  std::string text(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? "" : trim(found->second);
  }
  int number(const std::string& name, int least, int most) const {
    const int64_t value = parse_integer(text(name), name);
    if (value < least || value > most)
      throw UsageError(name + "=" + text(name) + " is not from " + std::to_string(least) + " to " +
                       std::to_string(most));
    return static_cast<int>(value);
  }
  std::string shown(const std::string& name) const { return name + "=" + text(name); }

 private:
  const Environment& environment_;
};

constexpr int kMax = 1 << 20;  // largest world size

// Number of processes on this machine by a variable of one number, or by Slurm's counts of all machines of the step
// ("4(x2),3"); 0 if the machine's place among them is not known.
int tasks_here(const Reader& from, const char* name) {
  if (name != std::string_view(kSrun.local_size)) return from.number(name, 1, kMax);
  const std::vector<int> counts = expand_counts(from.text(name));
  if (counts.size() == 1) return counts.front();
  if (!from.has("SLURM_NODEID")) return 0;
  const int node = from.number("SLURM_NODEID", 0, kMax);
  if (static_cast<size_t>(node) >= counts.size())
    throw UsageError(from.shown("SLURM_NODEID") + " contradicts " + from.shown(name));
  return counts[static_cast<size_t>(node)];
}

std::optional<LauncherRankEnvironment> read_ranks(const Reader& from, const Names& names) {
  if (!from.has(names.rank) || !from.has(names.size)) return {};  // one alone was not set by a launcher
  LauncherRankEnvironment launch{names.launcher, 0, from.number(names.size, 1, kMax), -1, 0, "", 0, ""};
  launch.rank = from.number(names.rank, 0, kMax);
  const auto contradict = [&](const char* one, const char* other) {
    throw UsageError(from.shown(one) + " contradicts " + from.shown(other));
  };
  if (launch.rank >= launch.size) contradict(names.rank, names.size);
  if (from.has(names.local_size)) launch.local_size = tasks_here(from, names.local_size);
  if (launch.local_size > launch.size) contradict(names.local_size, names.size);
  if (from.has(names.local_rank)) launch.local_rank = from.number(names.local_rank, 0, kMax);
  if (launch.local_size > 0 && launch.local_rank >= launch.local_size) contradict(names.local_rank, names.local_size);
  if (launch.local_rank > launch.rank && launch.on_one_machine()) contradict(names.local_rank, names.rank);
  if (launch.local_rank >= launch.size) contradict(names.local_rank, names.size);
  return launch;
}

void need(const Reader& from, const LauncherRankEnvironment& launch, const char* name, const std::string& way) {
  if (!from.has(name))
    throw UsageError(launch.launcher + " started " + std::to_string(launch.size) + " processes, and " + name +
                     ", by which they find rank 0, is not set: " + way);
}

int port_of_job(const std::string& job) {
  return kMinPort + static_cast<int>(hash64(job.data(), job.size(), 0) % kPorts);
}

int port_in(const Reader& from) { return from.number("MASTER_PORT", 1, std::numeric_limits<uint16_t>::max()); }

LauncherRankEnvironment of_torchrun(const Reader& from, LauncherRankEnvironment launch) {
  const std::string way = "torchrun sets it; by hand, a name and a free port of the machine of rank 0";
  need(from, launch, "MASTER_ADDR", way);
  need(from, launch, "MASTER_PORT", way);
  launch.host = from.text("MASTER_ADDR");
  launch.port = port_in(from);
  if (from.text("TORCHELASTIC_USE_AGENT_STORE") == "True")
    launch.store_prefix =
        "memtune/" + from.text("TORCHELASTIC_RUN_ID") + "/" + from.text("TORCHELASTIC_RESTART_COUNT") + "/";
  return launch;
}

LauncherRankEnvironment of_mpirun(const Reader& from, LauncherRankEnvironment launch) {
  const std::string way = from.has("OMPI_COMM_WORLD_RANK") ? "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500"
                                                           : "mpiexec -genv MASTER_ADDR HOST -genv MASTER_PORT 29500";
  if (!launch.on_one_machine()) need(from, launch, "MASTER_ADDR", way);
  launch.host = from.has("MASTER_ADDR") ? from.text("MASTER_ADDR") : "127.0.0.1";
  const std::string job = from.text("PMIX_NAMESPACE");
  if (job.empty()) need(from, launch, "MASTER_PORT", way);
  launch.port = from.has("MASTER_PORT") ? port_in(from) : port_of_job(job);
  return launch;
}

// Rank 0 runs on the first host of the step.
LauncherRankEnvironment of_srun(const Reader& from, LauncherRankEnvironment launch) {
  if (from.has("MASTER_ADDR")) {
    launch.host = from.text("MASTER_ADDR");
  } else if (launch.on_one_machine()) {
    launch.host = "127.0.0.1";
  } else {
    need(from, launch, "SLURM_STEP_NODELIST", "srun sets it; else MASTER_ADDR=HOST says the machine of rank 0");
    launch.host = expand_hosts(from.text("SLURM_STEP_NODELIST")).front();
  }
  if (!from.has("MASTER_PORT"))
    need(from, launch, "SLURM_JOB_ID", "srun sets it; else MASTER_PORT=PORT says a free port of the machine of rank 0");
  launch.port = from.has("MASTER_PORT") ? port_in(from)
                                        : port_of_job(from.text("SLURM_JOB_ID") + "." + from.text("SLURM_STEP_ID"));
  return launch;
}

// True inside an srun step. sbatch sets SLURM_PROCID for the batch script too, but starts no other process.
bool in_step(const Reader& from) { return from.has("SLURM_STEP_NUM_TASKS") || from.has("SLURM_STEP_NODELIST"); }

std::optional<LauncherRankEnvironment> read_step(const Reader& from) {
  if (!in_step(from)) return {};
  Names names = kSrun;
  if (!from.has(names.size) && from.has("SLURM_NTASKS")) names.size = "SLURM_NTASKS";
  return read_ranks(from, names);
}

}  // namespace

Environment this_environment() {
  Environment environment;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    const size_t equal = text.find('=');
    if (equal != std::string_view::npos) environment.emplace(text.substr(0, equal), text.substr(equal + 1));
  }
  return environment;
}

std::optional<LauncherRankEnvironment> read_launch(const Environment& environment) {
  const Reader from(environment);
  std::optional<LauncherRankEnvironment> launch;
  LauncherRankEnvironment (*rest)(const Reader&, LauncherRankEnvironment) = nullptr;
  if ((launch = read_ranks(from, kTorchrun))) {
    rest = of_torchrun;
  } else if ((launch = read_ranks(from, kOpenMpi))) {
    rest = of_mpirun;
  } else if ((launch = read_ranks(from, kPmi))) {
    rest = of_mpirun;
    // srun may provide PMI to its own tasks. If rank or size differ, mpirun provides it and the srun step
    // belongs to mpirun's daemons.
    const std::optional<LauncherRankEnvironment> step = in_step(from) ? read_step(from) : std::nullopt;
    if (step && step->rank == launch->rank && step->size == launch->size) launch = step, rest = of_srun;
  } else if ((launch = read_step(from))) {
    rest = of_srun;
  }
  if (!launch || launch->size == 1) return {};
  launch->secret = from.text("MEMTUNE_RANK_SECRET");
  return rest(from, *launch);
}

bool LauncherRankEnvironment::on_one_machine() const { return local_size == size || is_loopback(host); }

}  // namespace memtune::launch
