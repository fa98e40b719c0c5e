// Outside of the CUDA module, only this file and agent_store.cpp include c10d, whose headers are slow to compile.
#define USE_C10D_GLOO

#include <atomic>
#include <memory>
#include <string_view>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "core/base/device/cuda_module.h"
#include "core/base/scoped_timer.h"
#include "core/base/text.h"
#include "core/engine/shard/by_device.h"
#include "core/engine/shard/nccl.h"
#include "core/engine/shard/torch_groups.h"

namespace memtune::shard {
namespace {

constexpr std::string_view kTcp = "tcp://";

c10::intrusive_ptr<c10d::Store> tcp_store(const ProcessGroupSettings& settings) {
  const std::string place = settings.rendezvous.substr(kTcp.size());
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) throw Error("no rendezvous of the ranks at '" + settings.rendezvous + "'");
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(parse_integer(place.substr(colon + 1), "port"));
  options.isServer = settings.rank == 0;
  options.waitWorkers = false;
  options.timeout = settings.timeout;
  if (options.isServer) options.masterListenFd = settings.listening;
  return c10::make_intrusive<c10d::TCPStore>(place.substr(0, colon), options);
}

c10::intrusive_ptr<c10d::Store> store_of(const ProcessGroupSettings& settings) {
  // the store would retry for a long time
  if (settings.rendezvous.empty()) throw Error("ranks have no file for their rendezvous");
  if (settings.rendezvous.starts_with(kTcp)) return tcp_store(settings);
  auto store = c10::make_intrusive<c10d::FileStore>(settings.rendezvous, settings.size);
  store->setTimeout(settings.timeout);
  // The destructor writes the file and throws if it cannot. A trial's sandbox forbids that, so the store is never
  // destroyed.
  c10::raw::intrusive_ptr::incref(store.get());
  return store;
}

// A collective made of several concurrent works.
class GlooCollective : public PendingCollective {
 public:
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

  GlooCollective(Works works, std::string what, const ProcessGroupSettings& settings,
                 std::chrono::nanoseconds& exposed_time)
      : works_(std::move(works)), what_(std::move(what)), settings_(settings), stood_(exposed_time) {
    for (const auto& work : works_)
      work->getFuture()->addCallback([took = took_, asked = Clock::now()](c10::ivalue::Future& /*done*/) {
        took->store((Clock::now() - asked).count());
      });
  }
  void wait() override {
    const ScopedTimer standing(stood_);
    for (const auto& work : works_) try {
        work->wait();
      } catch (...) {
        rethrow(what_, settings_);
      }
  }
  std::chrono::nanoseconds took() const override { return Clock::duration(took_->load()); }

 private:
  using Clock = std::chrono::steady_clock;
  const Works works_;
  const std::string what_;
  const ProcessGroupSettings& settings_;
  std::chrono::nanoseconds& stood_;
  std::shared_ptr<std::atomic<Clock::rep>> took_ =
      std::make_shared<std::atomic<Clock::rep>>(0);  // set by Gloo's thread
};

class GlooReduction final : public GlooCollective {
 public:
  GlooReduction(c10::intrusive_ptr<c10d::Work> work, std::string what, const ProcessGroupSettings& settings,
                std::chrono::nanoseconds& exposed_time, at::Tensor part, at::Tensor own_of_whole)
      : GlooCollective({std::move(work)}, std::move(what), settings, exposed_time),
        part_(std::move(part)),
        own_of_whole_(std::move(own_of_whole)) {}
  void wait() override {
    GlooCollective::wait();
    part_.copy_(own_of_whole_);
  }

 private:
  at::Tensor part_, own_of_whole_;
};

class GlooCollectives final : public Collectives {
 public:
  GlooCollectives(const ProcessGroupSettings& settings, const c10::intrusive_ptr<c10d::Store>& store)
      : settings_(settings) {
    auto options = c10d::ProcessGroupGloo::Options::create(settings.timeout);
    const std::string address = settings.address.empty() ? "127.0.0.1" : settings.address;
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, settings.rank, settings.size, options);
    group_->barrier()->wait();  // all have joined: a rank that ends later disturbs no rendezvous
  }

  int rank() const override { return settings_.rank; }
  int size() const override { return settings_.size; }

  // Gloo's own all-gather and reduce-scatter copy the whole tensor and free the copy at an undefined time.
  PendingCollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what,
                                  const device::EventPtr& behind) override {
    if (behind) behind->synchronize();
    own_part(whole, part).copy_(part);
    const at::Tensor bytes = whole.view(at::kByte);  // Gloo supports few dtypes
    const int64_t count = bytes.numel() / size();
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int rank = 0; rank < size(); ++rank) {
      std::vector<at::Tensor> of_rank = {bytes.narrow(0, rank * count, count)};
      c10d::BroadcastOptions options;
      options.rootRank = rank;
      options.asyncOp = true;
      works.push_back(group_->broadcast(of_rank, options));
    }
    return std::make_unique<GlooCollective>(std::move(works), "all-gather of " + what, settings_, stood_);
  }

  PendingCollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole,
                                      const std::string& what) override {
    std::vector<at::Tensor> all = {reals_of(whole)};
    c10d::AllreduceOptions options;
    options.asyncOp = true;
    return std::make_unique<GlooReduction>(group_->allreduce(all, options), "reduce-scatter of " + what, settings_,
                                           stood_, part, own_part(whole, part));
  }

  std::chrono::nanoseconds exposed_time() override { return stood_; }

 private:
  at::Tensor own_part(const at::Tensor& whole, const at::Tensor& part) const {
    return whole.narrow(0, rank() * part.numel(), part.numel());
  }

  ProcessGroupSettings settings_;
  std::chrono::nanoseconds stood_{0};
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

// The CUDA module exports the symbol, because it links LibTorch's NCCL.
std::unique_ptr<Collectives> connect_by_nccl(const ProcessGroupSettings& settings, c10d::Store& store) {
  const auto connect =
      reinterpret_cast<decltype(&memtune_connect_by_nccl)>(device::cuda_symbol("memtune_connect_by_nccl"));
  return std::unique_ptr<Collectives>(connect(settings, store));
}

}  // namespace

bool is_order_mismatch(const std::exception& error) {
  return std::string(error.what()).find("Received data size doesn't match expected size") != std::string::npos;
}

bool is_missing_rank(const std::exception& error) {
  return std::string(error.what()).find("Watchdog caught collective operation timeout") != std::string::npos;
}

std::unique_ptr<Collectives> connect(const ProcessGroupSettings& settings) {
  try {
    const c10::intrusive_ptr<c10d::Store> store = store_of(settings);
    auto host = std::make_unique<GlooCollectives>(settings, store);
    if (settings.device < 0) return host;
    return by_device(std::move(host), connect_by_nccl(settings, *store));
  } catch (const Error&) {
    throw;
  } catch (...) {
    rethrow("meeting", settings);
  }
}

}  // namespace memtune::shard
