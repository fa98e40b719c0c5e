// Why: a rank that reads its environment differently from the others waits for ranks that never come. Worse, it may
// train alone.
#include "core/sweep/launch/launcher_rank_environment.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
namespace memtune::launch::launch_info_test {
namespace {

const Environment kTorchrun = {{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "node7"},
                               {"MASTER_PORT", "29500"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_NAMESPACE", "1592524801"}};
const Environment kMpich = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const Environment kSrun = {{"SLURM_JOB_ID", "4711"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "5"},
                           {"SLURM_NTASKS", "6"},
                           {"SLURM_STEP_NUM_TASKS", "6"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_STEP_TASKS_PER_NODE", "4,2"},
                           {"SLURM_STEP_NODELIST", "gpu[07-08]"}};

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

Environment operator+(Environment one, const Environment& other) {
  one.insert(other.begin(), other.end());
  return one;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

// The error message, "" if there is none.
std::string refusal(const Environment& environment) try {
  read_launch(environment);
  return "";
} catch (const UsageError& error) {
  return error.what();
}

TEST_CASE("a process without a launcher or alone in its group has no launch info") {
  CHECK_FALSE(read_launch({}));
  CHECK_FALSE(read_launch({{"PATH", "/bin"}, {"MASTER_ADDR", "a"}}));
  CHECK_FALSE(read_launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  CHECK_FALSE(read_launch({{"RANK", ""}, {"WORLD_SIZE", " "}}));
  // One variable without the other is the user's own.
  for (const char* name : {"RANK", "WORLD_SIZE"}) CHECK_FALSE(read_launch(without(kTorchrun, name)));
  CHECK_FALSE(read_launch({{"WORLD_SIZE", "gold"}}));
  // A batch script of sbatch is the first task of a job, but not a task of a step.
  CHECK_FALSE(read_launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "a,b"}}));
}

TEST_CASE("torchrun sets rank and size and host and port") {
  const LauncherRankEnvironment launch = read_launch(kTorchrun).value();
  CHECK(launch.launcher == "torchrun");
  CHECK(launch.rank == 3);
  CHECK(launch.size == 4);
  CHECK(launch.local_rank == 1);
  CHECK(launch.local_size == 2);
  CHECK(launch.host == "node7");
  CHECK(launch.port == 29500);
  CHECK(launch.store_prefix.empty());
  CHECK_FALSE(launch.on_one_machine());
}

TEST_CASE("if torchrun's agent owns the port its store is used with keys of this attempt") {
  const Environment agent = with(with(kTorchrun, "TORCHELASTIC_RUN_ID", "none"), "TORCHELASTIC_RESTART_COUNT", "2");
  CHECK(read_launch(with(agent, "TORCHELASTIC_USE_AGENT_STORE", "True"))->store_prefix == "memtune/none/2/");
  CHECK(read_launch(with(agent, "TORCHELASTIC_USE_AGENT_STORE", "False"))->store_prefix.empty());
}

TEST_CASE("a missing variable is named") {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
    CHECK(refusal(without(kTorchrun, name)).find("torchrun started 4 processes, and " + std::string(name)) == 0);
  CHECK(refusal(kMpich).find("-genv MASTER_PORT 29500") != std::string::npos);
  CHECK(refusal(with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2")).find("mpirun -x MASTER_ADDR=HOST") !=
        std::string::npos);
  CHECK(refusal(without(kSrun, "SLURM_STEP_NODELIST")).find("and SLURM_STEP_NODELIST") != std::string::npos);
  CHECK(refusal(without(kSrun, "SLURM_JOB_ID")).find("MASTER_PORT=PORT") != std::string::npos);
}

TEST_CASE("contradicting variables are named") {
  CHECK(refusal(with(kTorchrun, "RANK", "4")) == "RANK=4 contradicts WORLD_SIZE=4");
  CHECK(refusal(with(kTorchrun, "LOCAL_RANK", "2")) == "LOCAL_RANK=2 contradicts LOCAL_WORLD_SIZE=2");
  CHECK(refusal(with(kTorchrun, "LOCAL_WORLD_SIZE", "5")) == "LOCAL_WORLD_SIZE=5 contradicts WORLD_SIZE=4");
  CHECK(refusal(with(without(kTorchrun, "LOCAL_WORLD_SIZE"), "LOCAL_RANK", "4")) ==
        "LOCAL_RANK=4 contradicts WORLD_SIZE=4");
  CHECK(refusal(with(kSrun, "SLURM_NODEID", "2")) == "SLURM_NODEID=2 contradicts SLURM_STEP_TASKS_PER_NODE=4,2");
  CHECK(refusal(with(kSrun, "SLURM_LOCALID", "2")) == "SLURM_LOCALID=2 contradicts SLURM_STEP_TASKS_PER_NODE=4,2");
  for (const char* counts : {"8", "8(x2)", "2,8"})
    CHECK(refusal(with(kSrun, "SLURM_STEP_TASKS_PER_NODE", counts)) ==
          "SLURM_STEP_TASKS_PER_NODE=" + std::string(counts) + " contradicts SLURM_STEP_NUM_TASKS=6");
}

TEST_CASE("invalid numbers are rejected") {
  for (const char* value : {"x", "-1", "1.5", "0x1", "99999999999999999999", "2000000"}) {
    CHECK_MESSAGE(refusal(with(kTorchrun, "RANK", value)).find("RANK") != std::string::npos, value);
    CHECK_MESSAGE(refusal(with(kTorchrun, "WORLD_SIZE", value)).find("WORLD_SIZE") != std::string::npos, value);
  }
  for (const char* value : {"0", "65536", "x"})
    CHECK_MESSAGE(refusal(with(kTorchrun, "MASTER_PORT", value)).find("MASTER_PORT") == 0, value);
}

TEST_CASE("mpirun on one machine needs no more variables and on several the address of rank 0") {
  const LauncherRankEnvironment here = read_launch(kOpenMpi).value();
  CHECK(here.launcher == "mpirun");
  CHECK(here.rank == 1);
  CHECK(here.host == "127.0.0.1");
  CHECK(here.on_one_machine());
  CHECK(here.port >= 20000);
  CHECK(here.port < 32000);
  CHECK(read_launch(kOpenMpi)->port == here.port);
  CHECK(read_launch(with(kOpenMpi, "PMIX_NAMESPACE", "1592524802"))->port != here.port);
  const Environment there = {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1234"}};
  const LauncherRankEnvironment many = read_launch(with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2") + there).value();
  CHECK(many.host == "a");
  CHECK(many.port == 1234);
  CHECK(read_launch(kMpich + there)->size == 2);
}

TEST_CASE("srun lists its hosts and the first one has rank 0") {
  const LauncherRankEnvironment launch = read_launch(kSrun).value();
  CHECK(launch.launcher == "srun");
  CHECK(launch.rank == 5);
  CHECK(launch.size == 6);
  CHECK(launch.local_rank == 1);
  CHECK(launch.local_size == 2);
  CHECK(launch.host == "gpu07");
  CHECK(read_launch(with(kSrun, "SLURM_PROCID", "0"))->port == launch.port);
  CHECK(read_launch(with(kSrun, "SLURM_STEP_ID", "1"))->port != launch.port);
  CHECK(read_launch(with(kSrun, "MASTER_ADDR", "b"))->host == "b");
  CHECK(read_launch(with(kSrun, "MASTER_PORT", "77"))->port == 77);
  CHECK(read_launch(with(kSrun, "SLURM_STEP_TASKS_PER_NODE", "6"))->host == "127.0.0.1");
  CHECK(read_launch(without(kSrun, "SLURM_STEP_NUM_TASKS"))->size == 6);
  CHECK(read_launch(with(kSrun, "SLURM_STEP_TASKS_PER_NODE", "2(x3)"))->local_size == 2);
  CHECK(refusal(with(kSrun, "SLURM_STEP_NODELIST", "gpu[")) == "'gpu[' is no list of hosts");
}

TEST_CASE("the innermost of nested launchers counts") {
  CHECK(read_launch(kTorchrun + kOpenMpi + kSrun)->launcher == "torchrun");
  CHECK(read_launch(kOpenMpi + kSrun)->rank == 1);
  // srun sets PMI variables for its own tasks, and it starts the daemons of mpirun.
  const Environment own = {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}};
  CHECK(read_launch(kSrun + own)->launcher == "srun");
  CHECK(refusal(kSrun + Environment{{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}).find("mpirun started 8") == 0);
}

}  // namespace
}  // namespace memtune::launch::launch_info_test
