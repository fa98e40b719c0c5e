// Finding events by the text of their name, or of the name, region or placement of their value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace memtune::gui {

class Search {
 public:
  // Letters match in either case. An empty text finds nothing.
  void find(const trace::Trace& trace, const std::string& text);

  const std::string& text() const { return text_; }
  const std::vector<uint32_t>& hits() const { return hits_; }  // index into Trace::events, in order of time
  std::optional<size_t> current() const { return current_; }   // index into hits()

  // To the next or previous hit, around the ends; the first time the nearest at or after `from_ns`.
  std::optional<uint32_t> step(const trace::Trace& trace, bool forward, int64_t from_ns);

 private:
  std::string text_;
  std::vector<uint32_t> hits_;
  std::optional<size_t> current_;
};

}  // namespace memtune::gui
