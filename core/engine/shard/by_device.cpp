#include "core/engine/shard/by_device.h"

#include <utility>

namespace memtune::shard {
namespace {

class ByDevice final : public Collectives {
 public:
  ByDevice(std::unique_ptr<Collectives> of_cpu, std::unique_ptr<Collectives> of_device)
      : of_cpu_(std::move(of_cpu)), of_device_(std::move(of_device)) {}

  int rank() const override { return of_cpu_->rank(); }
  int size() const override { return of_cpu_->size(); }
  PendingCollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what,
                                  const device::EventPtr& behind) override {
    return of(part).all_gather(whole, part, what, behind);
  }
  PendingCollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole,
                                      const std::string& what) override {
    return of(part).reduce_scatter(part, whole, what);
  }
  std::chrono::nanoseconds exposed_time() override { return of_device_->exposed_time(); }

 private:
  Collectives& of(const at::Tensor& tensor) { return tensor.is_cpu() ? *of_cpu_ : *of_device_; }

  std::unique_ptr<Collectives> of_cpu_, of_device_;
};

}  // namespace

std::unique_ptr<Collectives> by_device(std::unique_ptr<Collectives> of_cpu, std::unique_ptr<Collectives> of_device) {
  return std::make_unique<ByDevice>(std::move(of_cpu), std::move(of_device));
}

}  // namespace memtune::shard
