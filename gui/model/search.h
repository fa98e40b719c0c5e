// Finds events by their name, or by the name, region or placement of their tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/record/trace/trace_event.h"

namespace memtune::gui {

class Search {
 public:
  // Ignores case. An empty text finds nothing.
  void find(const trace::Trace& trace, const std::string& text);

  const std::string& text() const { return text_; }
  const std::vector<uint32_t>& hits() const { return hits_; }  // index into Trace::events, in order of time
  std::optional<size_t> current() const { return current_; }   // index into hits()

  // Moves to the next or previous hit, cyclically. The first call moves to the nearest hit at or after `from_ns`.
  std::optional<uint32_t> step(const trace::Trace& trace, bool forward, int64_t from_ns);

 private:
  std::string text_;
  std::vector<uint32_t> hits_;
  std::optional<size_t> current_;
};

}  // namespace memtune::gui
