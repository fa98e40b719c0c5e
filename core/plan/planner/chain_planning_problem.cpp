#include "core/plan/planner/chain_planning_problem.h"

#include <algorithm>

namespace memtune::planner {
namespace {

const ChainBlockOptionCosts& chosen(const ChainPlanningProblem& chain, std::span<const int> choice, size_t block) {
  return chain.blocks[block].options[static_cast<size_t>(choice[block])];
}

// Progress of a simulated step, and what it holds.
class ChainWalk {
 public:
  ChainWalk(const ChainPlanningProblem& chain, std::span<const int> choice) : chain_(chain), choice_(choice) {}

  ChainSimulationResult walk() {
    cost_.fits = tiers_are_enough();
    for (size_t i = 0; cost_.fits && i < chain_.blocks.size(); ++i) forward(i);
    for (size_t i = chain_.blocks.size(); cost_.fits && i-- > 0;) backward(i);
    return cost_;
  }

 private:
  bool tiers_are_enough() const {
    int64_t host = 0, disk = 0;
    for (size_t i = 0; i < chain_.blocks.size(); ++i) {
      host += chosen(chain_, choice_, i).host_bytes();
      disk += chosen(chain_, choice_, i).disk_bytes;
    }
    const auto fits = [](int64_t bytes, int64_t budget) { return budget == 0 || bytes <= budget; };
    const bool has_link = chain_.out_bytes_per_ms > 0 && chain_.in_bytes_per_ms > 0;
    const bool has_disk = chain_.write_bytes_per_ms > 0 && chain_.read_bytes_per_ms > 0;
    return (host + disk == 0 || has_link) && (disk == 0 || has_disk) && fits(host, chain_.host_budget_bytes) &&
           fits(disk, chain_.disk_budget_bytes);
  }

  double write_ms(int64_t bytes) const {
    return chain_.write_bytes_per_ms > 0 ? static_cast<double>(bytes) / chain_.write_bytes_per_ms : 0;
  }
  double back_ms(const ChainBlockOptionCosts& option) const {
    const double copy =
        option.offloaded_bytes > 0 ? static_cast<double>(option.offloaded_bytes) / chain_.in_bytes_per_ms : 0;
    const double read = option.disk_bytes > 0 ? static_cast<double>(option.disk_bytes) / chain_.read_bytes_per_ms : 0;
    return std::max(copy, read);
  }

  // Waits until enough bytes are copied out that `bytes` fit. Returns the wait in ms.
  double make_room(double bytes) {
    // Exact, since all three are whole numbers; `leaving_` is not.
    const double room = static_cast<double>(chain_.budget_bytes) - resident_ - bytes;
    if (room < 0) cost_.fits = false;
    const double need = std::max(0.0, leaving_ - room);
    if (need == 0 || !cost_.fits) return 0;
    leaving_ -= need;
    return need / chain_.out_bytes_per_ms;
  }

  void run(double ms) {
    leaving_ = std::max(0.0, leaving_ - chain_.out_bytes_per_ms * ms);
    writing_ms_ = std::max(0.0, writing_ms_ - ms);
  }
  // Returns the wait beyond `link_wait`, during which the disk has written too.
  double wait_for_disk(double link_wait) {
    writing_ms_ = std::max(0.0, writing_ms_ - link_wait);
    const double wait = std::max(0.0, writing_ms_ - write_ms(chain_.staging_bytes));
    run(wait);
    return wait;
  }
  void see_peak(double bytes) {
    cost_.peak_bytes = std::max(cost_.peak_bytes, static_cast<int64_t>(resident_ + leaving_ + bytes));
  }

  void forward(size_t i) {
    const ChainBlockOptionCosts& option = chosen(chain_, choice_, i);
    const double bytes = static_cast<double>(option.forward_peak_bytes), link_wait = make_room(bytes);
    if (!cost_.fits) return;
    const double wait = link_wait + wait_for_disk(link_wait);
    see_peak(bytes);
    cost_.forward_wait_ms += wait;
    cost_.ms += wait + chain_.blocks[i].forward_ms;
    run(chain_.blocks[i].forward_ms);
    leaving_ += static_cast<double>(option.offloaded_bytes);
    writing_ms_ += write_ms(option.disk_bytes);
    resident_ += static_cast<double>(option.resident_bytes);
  }

  void backward(size_t i) {
    const ChainBlockOptionCosts& option = chosen(chain_, choice_, i);
    resident_ -= static_cast<double>(option.resident_bytes);
    // The copy back began with the backward of the next block.
    const double late = std::max(0.0, back_ms(option) - behind_ms_);
    run(late);
    const double next = i > 0 ? static_cast<double>(chosen(chain_, choice_, i - 1).offloaded_bytes) : 0;
    const double bytes = static_cast<double>(option.backward_peak_bytes) + next;
    const double wait = make_room(bytes);
    if (!cost_.fits) return;
    see_peak(bytes);
    behind_ms_ = chain_.blocks[i].backward_ms + option.recompute_ms;
    cost_.backward_wait_ms += late + wait;
    cost_.ms += late + wait + behind_ms_;
    run(behind_ms_);
  }

  const ChainPlanningProblem& chain_;
  std::span<const int> choice_;
  ChainSimulationResult cost_;
  double resident_ = 0, leaving_ = 0;  // bytes that stay; bytes not copied out yet
  double writing_ms_ = 0;              // until the disk has written everything so far
  double behind_ms_ = 0;               // backward of the next block, which ran before
};

}  // namespace

ChainSimulationResult simulate(const ChainPlanningProblem& chain, std::span<const int> choice) {
  return ChainWalk(chain, choice).walk();
}

}  // namespace memtune::planner
