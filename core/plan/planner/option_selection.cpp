#include "core/plan/planner/option_selection.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <tuple>
#include <utility>

namespace memtune::planner {
namespace {

constexpr double kNearlyEqual = 0.005;  // of the block's bytes and ms
constexpr double kWorthwhile = 0.002;   // gain, as a share of the cost of a block
constexpr double kMinCost = 0.01;       // added to each cost, so that cheap options compare like the rest

auto by_resident(const BlockOption& option) {
  return std::tuple(-option.resident_bytes, option.offloaded_bytes, option.recompute_ms);
}

class Selection {
 public:
  Selection(std::vector<BlockOption> options, int most) : options_(std::move(options)), most_(most) {
    for (const BlockOption& option : options_) {
      most_bytes_ = std::max(most_bytes_, static_cast<double>(option.resident_bytes));
      most_ms_ = std::max(most_ms_, option.recompute_ms);
    }
  }

  std::vector<BlockOption> select() {
    take_extremes();
    remove_near();
    set_prices();
    while (count() < most_ && (take_most_useful() || take_farthest())) continue;
    return sorted();
  }

 private:
  int count() const { return static_cast<int>(taken_.size()); }

  // The fastest, the smallest, and the smallest that offloads nothing: of those that are nearly as small, the fastest.
  void take_extremes() {
    take_least([](const BlockOption& o) { return std::tuple(o.recompute_ms, o.offloaded_bytes); });
    take_least([](const BlockOption& o) { return std::tuple(o.resident_bytes, o.recompute_ms); });
    take_least([least = least_without_offload()](const BlockOption& o) {
      return std::tuple(o.offloaded_bytes, static_cast<double>(o.resident_bytes) > least, o.recompute_ms);
    });
  }

  double least_without_offload() const {
    double least = std::numeric_limits<double>::max();
    for (const std::vector<BlockOption>* options : {&options_, &taken_})
      for (const BlockOption& option : *options)
        if (option.offloaded_bytes == 0) least = std::min(least, static_cast<double>(option.resident_bytes));
    return least + kNearlyEqual * most_bytes_;
  }

  template <class Rank>
  void take_least(const Rank& rank) {
    if (!options_.empty() && count() < most_) take(std::ranges::min_element(options_, {}, rank));
  }

  void take(std::vector<BlockOption>::iterator option) {
    taken_.push_back(*option);
    options_.erase(option);
  }

  bool near(const BlockOption& a, const BlockOption& b) const {
    const auto close = [](double x, double y, double whole) { return std::abs(x - y) <= kNearlyEqual * whole; };
    return close(static_cast<double>(a.resident_bytes), static_cast<double>(b.resident_bytes), most_bytes_) &&
           close(static_cast<double>(a.offloaded_bytes), static_cast<double>(b.offloaded_bytes), most_bytes_) &&
           close(a.recompute_ms, b.recompute_ms, most_ms_);
  }

  void remove_near() {
    std::vector<BlockOption> rest;
    for (BlockOption& option : options_) {
      const auto is_near = [&](const BlockOption& other) { return near(option, other); };
      if (std::ranges::none_of(taken_, is_near) && std::ranges::none_of(rest, is_near))
        rest.push_back(std::move(option));
    }
    options_ = std::move(rest);
  }

  // In units of the block's own bytes and ms. A moved byte is mostly cheaper than a resident one; otherwise nothing
  // would be offloaded.
  void set_prices() {
    for (int power = -6; power <= 6; ++power)
      for (const double share : {0.125, 0.25, 0.5, 0.75, 2.0})
        prices_.push_back({std::exp2(power), share * std::exp2(power)});
    least_ = best_ = std::vector<double>(prices_.size(), std::numeric_limits<double>::max());
    for (const BlockOption& option : options_) lower(least_, option);
    for (const BlockOption& option : taken_) lower(least_, option), lower(best_, option);
  }

  double cost(const BlockOption& option, size_t price) const {
    const auto [resident, moved] = prices_[price];
    const double bytes =
        resident * static_cast<double>(option.resident_bytes) + moved * static_cast<double>(option.offloaded_bytes);
    return kMinCost + option.recompute_ms / most_ms_ + bytes / most_bytes_;
  }

  void lower(std::vector<double>& costs, const BlockOption& option) const {
    for (size_t price = 0; price < prices_.size(); ++price) costs[price] = std::min(costs[price], cost(option, price));
  }

  // How much better it is than the options taken, averaged over all prices.
  double gain(const BlockOption& option) const {
    double gain = 0;
    for (size_t price = 0; price < prices_.size(); ++price)
      gain += std::max(0.0, best_[price] - cost(option, price)) / least_[price];
    return gain / static_cast<double>(prices_.size());
  }

  // To the nearest option taken.
  double distance(const BlockOption& option) const {
    double least = std::numeric_limits<double>::max();
    for (const BlockOption& other : taken_) least = std::min(least, distance(option, other));
    return least;
  }

  double distance(const BlockOption& a, const BlockOption& b) const {
    const double bytes = static_cast<double>(std::abs(a.resident_bytes - b.resident_bytes) +
                                             std::abs(a.offloaded_bytes - b.offloaded_bytes));
    return bytes / most_bytes_ + std::abs(a.recompute_ms - b.recompute_ms) / most_ms_;
  }

  bool take_most_useful() {
    const auto useful =
        std::ranges::max_element(options_, {}, [this](const BlockOption& option) { return gain(option); });
    if (useful == options_.end() || gain(*useful) < kWorthwhile) return false;
    take(useful);
    lower(best_, taken_.back());
    return true;
  }

  // A block may need an option between two corners of the hull.
  bool take_farthest() {
    if (options_.empty()) return false;
    take(std::ranges::max_element(options_, {}, [this](const BlockOption& option) { return distance(option); }));
    return true;
  }

  std::vector<BlockOption> sorted() {
    std::ranges::sort(taken_, {}, by_resident);
    return std::move(taken_);
  }

  std::vector<BlockOption> options_, taken_;
  int most_;
  double most_bytes_ = 1, most_ms_ = 1e-9;
  std::vector<std::pair<double, double>> prices_;  // of resident and moved bytes
  std::vector<double> least_, best_;               // by price: lowest cost of all options, and of those taken
};

}  // namespace

std::vector<BlockOption> select_options(std::vector<BlockOption> options, int most) {
  return Selection(std::move(options), most).select();
}

}  // namespace memtune::planner
