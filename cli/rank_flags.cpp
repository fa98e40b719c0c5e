#include "cli/rank_flags.h"

#include <chrono>
#include <limits>
#include <optional>

#include "cli/flags.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/sweep/launch/launcher_rank_environment.h"

namespace memtune::cli {
namespace {

constexpr int64_t kMaxRanks = 256;  // that memtune starts itself

}  // namespace

void RankFlags::add_to(CLI::App& command) {
  command
      .add_option("--ranks", ranks,
                  "processes that train one sharded model, each with its own batch and GPU (default: 1, or as many as "
                  "torchrun, "
                  "srun or mpirun started)")
      ->type_name("N");
  offer(command.add_option("--reshard", reshard,
                           "when a block's gathered parameters are freed: " + join(kReshard, ", ") +
                               " (default: always, after forward and backward)"),
        kReshard)
      ->type_name("WHEN");
  command
      .add_option("--shard-dtype", shard_dtype,
                  "dtype of the sharded parameters and their updates: fp32 with --dtype bf16 gathers in bf16 (default: "
                  "the model's)")
      ->type_name("DTYPE");
  command
      .add_option("--reduce-dtype", reduce_dtype,
                  "dtype in which gradients are reduced over ranks (default: their own)")
      ->type_name("DTYPE");
  command.add_flag("--shard-offload", shard_offload,
                   "keep shards, their gradients and the optimizer in host memory, like CPUOffloadPolicy");
  command.add_option("--rank-timeout", timeout, "how long a rank waits for the others: 30s (default: 2m)")
      ->type_name("TIME");
  put_under(kTraining, command, {"--ranks", "--reshard", "--shard-dtype", "--reduce-dtype", "--shard-offload"});
  put_under(kMeasuring, command, {"--rank-timeout"});
}

void RankFlags::read(plan::TrainingSettings& to) const {
  const std::optional<launch::LauncherRankEnvironment> launch =
      ranks == "1" ? std::nullopt : launch::read_launch(launch::this_environment());
  const int64_t most = launch ? std::numeric_limits<int>::max() : kMaxRanks;
  to.ranks = ranks.empty() ? 1 : static_cast<int>(integer_flag("--ranks", ranks, 1, most));
  if (launch && !ranks.empty() && to.ranks != launch->size)
    throw UsageError("--ranks " + ranks + ": " + launch->launcher + " started " + std::to_string(launch->size) +
                     " processes, which are the ranks; --ranks 1 runs this process alone");
  if (launch) to.ranks = launch->size;
  to.reshard = choice_flag("--reshard", reshard, kReshard);
  if (!shard_dtype.empty()) to.shard_dtype = dtype_flag("--shard-dtype", shard_dtype, kParameterDtypes);
  if (!reduce_dtype.empty()) to.reduce_dtype = dtype_flag("--reduce-dtype", reduce_dtype, kParameterDtypes);
  to.shard_offload = shard_offload;
  to.rank_timeout_ms = std::chrono::milliseconds(duration_flag("--rank-timeout", timeout)).count();
}

void check_device_of_ranks(const plan::TrainingSettings& training) {
  if (training.ranks > 1 && training.device.starts_with("cuda:"))
    throw UsageError("--ranks " + std::to_string(training.ranks) +
                     ": each rank has a device of its own, cuda:0 and so on: --device cuda, not " + training.device);
}

void check_ranks(const sweep::EngineSweepSettings& settings, bool finds_batch) {
  if (settings.request.training.ranks == 1) return;
  const std::string with = "--ranks " + std::to_string(settings.request.training.ranks) + ": ";
  if (finds_batch) throw UsageError(with + "--batch auto does not go with several ranks");
  if (settings.global_batch > 0) throw UsageError(with + "--global-batch does not go with several ranks");
}

}  // namespace memtune::cli
