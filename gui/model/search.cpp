#include "gui/model/search.h"

#include <algorithm>
#include <cctype>

namespace memtune::gui {
namespace {

bool contains(const std::string& text, const std::string& part) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// A name occurs thousands of times, so it is compared only once.
template <typename Items, typename Matches>
std::vector<bool> matching(const Items& items, Matches matches) {
  std::vector<bool> found;
  for (const auto& item : items) found.push_back(matches(item));
  return found;
}

}  // namespace

void Search::find(const trace::Trace& trace, const std::string& text) {
  text_ = text;
  hits_.clear();
  current_.reset();
  if (text.empty()) return;
  const auto names = matching(trace.names, [&](const std::string& name) { return contains(name, text); });
  const auto values = matching(trace.values, [&](const trace::TracedActivationPlacement& value) {
    return contains(value.name, text) || contains(value.region, text) || contains(value.placement, text);
  });
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const trace::TraceEvent& event = trace.events[i];
    if (names[event.name] || (event.value && values[event.value.index()])) hits_.push_back(static_cast<uint32_t>(i));
  }
  std::stable_sort(hits_.begin(), hits_.end(),
                   [&](uint32_t a, uint32_t b) { return trace.events[a].start_ns < trace.events[b].start_ns; });
}

std::optional<uint32_t> Search::step(const trace::Trace& trace, bool forward, int64_t from_ns) {
  if (hits_.empty()) return std::nullopt;
  const size_t count = hits_.size();
  if (current_) {
    current_ = (*current_ + (forward ? 1 : count - 1)) % count;
  } else {
    const auto next =
        std::find_if(hits_.begin(), hits_.end(), [&](uint32_t hit) { return trace.events[hit].start_ns >= from_ns; });
    const auto index = static_cast<size_t>(next - hits_.begin());
    current_ = (forward ? index : index + count - 1) % count;
  }
  return hits_[*current_];
}

}  // namespace memtune::gui
