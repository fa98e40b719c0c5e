// LibTorch runs NCCL collectives on a stream of their own, after the compute work queued at the time of the call.
// Waiting makes the compute stream wait and does not block the host. Memory that compute frees after the wait can be
// reused safely.
#define USE_C10D_NCCL

#include "core/engine/shard/nccl.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>

#include <cstdlib>
#include <deque>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "core/base/device/cuda/cuda_check.h"
#include "core/base/device/cuda/cuda_event.h"
#include "core/engine/shard/torch_groups.h"

namespace memtune::shard {
namespace {

using std::chrono::nanoseconds;

nanoseconds of_ms(float ms) { return nanoseconds(static_cast<int64_t>(1e6 * static_cast<double>(ms))); }

// Measures how long the compute stream waits, with an event before and after each wait.
class Standing {
 public:
  void begin() { waits_.emplace_back().first.record(); }
  void end() {
    waits_.back().second.record();
    while (waits_.size() > kMax) add_first();  // ended long ago
  }
  nanoseconds so_far() {
    while (!waits_.empty()) add_first();
    return so_far_;
  }

 private:
  static constexpr size_t kMax = 4096;

  struct Wait {
    at::cuda::CUDAEvent first{cudaEventDefault}, second{cudaEventDefault};
  };

  void add_first() {
    const Wait& wait = waits_.front();
    wait.second.synchronize();
    so_far_ += of_ms(wait.first.elapsed_time(wait.second));
    waits_.pop_front();
  }

  std::deque<Wait> waits_;
  nanoseconds so_far_{0};
};

class NcclCollective final : public PendingCollective {
 public:
  NcclCollective(c10::intrusive_ptr<c10d::Work> work, std::string what, const ProcessGroupSettings& settings,
                 Standing& standing, at::Tensor source)
      : work_(std::move(work)),
        what_(std::move(what)),
        settings_(settings),
        standing_(standing),
        source_(std::move(source)) {}

  void wait() override try {
    standing_.begin();
    work_->wait();
    standing_.end();
    source_.reset();
  } catch (...) {
    rethrow(what_, settings_);
  }
  nanoseconds took() const override { return of_ms(work_->getDuration()); }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
  const std::string what_;
  const ProcessGroupSettings& settings_;
  Standing& standing_;
  at::Tensor source_;  // read by the collective; freed after compute has waited for it
};

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(const ProcessGroupSettings& settings, c10d::Store& store)
      : settings_(settings),
        beside_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, static_cast<c10::DeviceIndex>(settings.device))) {
    const auto device = static_cast<c10::DeviceIndex>(settings.device);
    c10::cuda::set_device(device);
    // Collectives of one block delay the next, so they get priority over kernels that are queued for the device.
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = settings.timeout;
    const auto named =
        c10::make_intrusive<c10d::PrefixStore>("nccl", c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store));
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(named, settings.rank, settings.size, std::move(options));
    group_->enableCollectivesTiming();
    group_->eagerConnectSingleDevice(c10::Device(c10::kCUDA, device));
  }

  int rank() const override { return settings_.rank; }
  int size() const override { return settings_.size; }

  PendingCollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what,
                                  const device::EventPtr& behind) override {
    c10::cuda::OptionalCUDAStreamGuard guard;
    if (behind) guard.reset_stream(beside_behind(*behind));
    at::Tensor to = whole.view(at::kByte);  // NCCL supports few dtypes
    at::Tensor from = part.to(whole.scalar_type()).view(at::kByte);
    c10d::AllgatherOptions options;
    options.asyncOp = true;
    return asked(group_->_allgather_base(to, from, options), "all-gather of " + what, from);
  }
  PendingCollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole,
                                      const std::string& what) override {
    at::Tensor to = reals_of(part), from = reals_of(whole);
    c10d::ReduceScatterOptions options;
    options.asyncOp = true;
    return asked(group_->_reduce_scatter_base(to, from, options), "reduce-scatter of " + what, {});
  }
  nanoseconds exposed_time() override { return standing_.so_far(); }

 private:
  PendingCollectivePtr asked(c10::intrusive_ptr<c10d::Work> work, const std::string& what, at::Tensor source) {
    return std::make_unique<NcclCollective>(std::move(work), what, settings_, standing_, std::move(source));
  }

  // Collectives on this stream run after the event and after the compute work so far, whose freed memory is reused
  // here.
  c10::cuda::CUDAStream beside_behind(const device::StreamEvent& event) const {
    at::cuda::CUDAEvent so_far;
    so_far.record();
    so_far.block(beside_);
    device::check_cuda(cudaStreamWaitEvent(beside_.stream(), device::handle_of(event), 0), "cudaStreamWaitEvent");
    return beside_;
  }

  const ProcessGroupSettings settings_;
  const c10::cuda::CUDAStream beside_;
  Standing standing_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

// A trial's sandbox later forbids connections and files. So NCCL makes all connections now. If a rank is missing,
// LibTorch's watchdog ends the process without writing dumps.
void set_up_environment() {
  for (const auto& [name, value] : {std::pair{"NCCL_RUNTIME_CONNECT", "0"},
                                    {"TORCH_NCCL_ENABLE_MONITORING", "0"},
                                    {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
                                    {"TORCH_FR_BUFFER_SIZE", "0"}})
    ::setenv(name, value, /*overwrite=*/0);
}

// The first collective of each kind initializes NCCL.
void try_each(Collectives& group, int device) {
  const at::Tensor part =
      at::ones({64}, at::TensorOptions(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device))));
  const at::Tensor whole = at::empty({64 * group.size()}, part.options());
  group.all_gather(whole, part, "the first rows")->wait();
  group.reduce_scatter(part, whole, "the first rows")->wait();
  (void)group.exposed_time();
}

}  // namespace
}  // namespace memtune::shard

extern "C" __attribute__((visibility("default"))) memtune::shard::Collectives* memtune_connect_by_nccl(
    const memtune::shard::ProcessGroupSettings& settings, c10d::Store& store) {
  memtune::shard::set_up_environment();
  auto group = std::make_unique<memtune::shard::NcclCollectives>(settings, store);
  memtune::shard::try_each(*group, settings.device);
  return group.release();
}
