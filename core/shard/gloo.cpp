// The one source that knows c10d, whose headers are slow to compile.
#define USE_C10D_GLOO

#include <ATen/ops/view_as_real.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "core/shard/collectives.h"

namespace memtune::shard {
namespace {

std::string seconds_text(std::chrono::milliseconds time) {
  const std::string text = std::to_string(static_cast<double>(time.count()) / 1e3);
  return text.substr(0, text.find('.') + (time.count() % 1000 == 0 ? 0 : 2)) + " s";
}

// Gloo tells by words alone, c10d's store by an error of torch's.
[[noreturn]] void rethrow(const std::string& what, const GroupSettings& settings) {
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string rank = "rank " + std::to_string(settings.rank);
    if (text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos)
      throw RankTimeout(rank + " waited " + seconds_text(settings.patience) + " for the others in the " + what);
    throw RankLost(rank + " lost another rank in the " + what);
  }
}

// Gloo sums no complex numbers.
at::Tensor reals_of(const at::Tensor& row) { return row.is_complex() ? at::view_as_real(row).view(-1) : row; }

class GlooCollective final : public Collective {
 public:
  GlooCollective(c10::intrusive_ptr<c10d::Work> work, std::string what, const GroupSettings& settings)
      : work_(std::move(work)), what_(std::move(what)), settings_(settings) {}
  void wait() override try { work_->wait(); } catch (...) {
    rethrow(what_, settings_);
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
  const GroupSettings& settings_;
};

class GlooCollectives final : public Collectives {
 public:
  explicit GlooCollectives(const GroupSettings& settings) : settings_(settings) {
    auto options = c10d::ProcessGroupGloo::Options::create(settings.patience);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    if (settings.rendezvous.empty()) throw Error("ranks have no file to meet by");  // the store would look for it long
    auto store = c10::make_intrusive<c10d::FileStore>(settings.rendezvous, settings.size);
    store->setTimeout(settings.patience);
    // Its destructor writes the file, throws where it may not, and a trial's sandbox has closed by then: it has none.
    c10::raw::intrusive_ptr::incref(store.get());
    try {
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(store), settings.rank, settings.size, options);
    } catch (...) {
      rethrow("meeting", settings_);
    }
  }

  int rank() const override { return settings_.rank; }
  int size() const override { return settings_.size; }

  CollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what) override {
    at::Tensor output = whole.view(at::kByte), input = part.view(at::kByte);  // Gloo knows few types
    c10d::AllgatherOptions options;
    options.asyncOp = true;
    return start(group_->_allgather_base(output, input, options), "all-gather of " + what);
  }

  CollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole, const std::string& what) override {
    at::Tensor output = reals_of(part), input = reals_of(whole);
    c10d::ReduceScatterOptions options;
    options.asyncOp = true;
    return start(group_->_reduce_scatter_base(output, input, options), "reduce-scatter of " + what);
  }

 private:
  CollectivePtr start(c10::intrusive_ptr<c10d::Work> work, std::string what) {
    return std::make_unique<GlooCollective>(std::move(work), std::move(what), settings_);
  }

  GroupSettings settings_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

bool tells_of_different_orders(const std::exception& error) {
  return std::string(error.what()).find("Received data size doesn't match expected size") != std::string::npos;
}

std::unique_ptr<Collectives> connect_by_gloo(const GroupSettings& settings) {
  return std::make_unique<GlooCollectives>(settings);
}

}  // namespace memtune::shard
