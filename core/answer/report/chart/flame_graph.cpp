#include "core/answer/report/chart/flame_graph.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "core/answer/report/chart/chart.h"
#include "core/answer/report/chart/svg_writer.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::report {
namespace {

using result::MemoryOfCallPath;

constexpr int kFrameHeight = 18, kMaxDepth = 28;
constexpr double kLeastWidth = 0.7;  // pixels

// How PyTorch calls a module's forward: three of these frames come before each.
bool is_call(std::string_view frame) {
  return frame.starts_with("module.py:") &&
         (frame.ends_with(":_wrapped_call_impl") || frame.ends_with(":_call_impl") || frame.ends_with(":inner"));
}

const char* style_of(std::string_view kind) {
  static const std::map<std::string_view, const char*> styles = {
      {"parameters", "s0"}, {"optimizer", "s3"},   {"gradients", "s5"}, {"buffers", "s6"},
      {"inputs", "s6"},     {"activations", "s2"}, {"logits", "s1"},    {"attention", "s4"}};
  const auto found = styles.find(kind);
  return found == styles.end() ? "s7" : found->second;
}

struct Node {
  int64_t bytes = 0;
  std::map<std::string, std::unique_ptr<Node>> inner;

  Node& child(const std::string& name) {
    std::unique_ptr<Node>& found = inner[name];
    if (!found) found = std::make_unique<Node>();
    return *found;
  }
};

int depth_of(const Node& node) {
  int depth = 0;
  for (const auto& [name, child] : node.inner) depth = std::max(depth, depth_of(*child));
  return depth + 1;
}

class FlameGraph {
 public:
  explicit FlameGraph(const std::vector<MemoryOfCallPath>& paths) {
    for (const MemoryOfCallPath& path : paths) add(path);
  }

  std::string draw() {
    if (root_.bytes <= 0) return "";
    SvgWriter svg(kChartWidth, kFrameHeight * depth_of(root_) + 2, "Memory by call path");
    put(svg, root_, "sum", "", 0, kChartWidth, 0);
    return std::move(svg).finish();
  }

 private:
  void add(const MemoryOfCallPath& path) {
    Node* node = &root_;
    node->bytes += path.bytes;
    int depth = 1;
    for (const std::string& frame : path.frames) {
      if (is_call(frame)) continue;
      if (++depth > kMaxDepth) break;
      node = &node->child(frame);
      node->bytes += path.bytes;
    }
  }

  void put(SvgWriter& svg, const Node& node, const std::string& name, const char* style, double x, double width,
           int row) const {
    const double share = static_cast<double>(node.bytes) / static_cast<double>(root_.bytes);
    const std::string text = name + " " + format_bytes(node.bytes);
    svg.bar({x, static_cast<double>(row * kFrameHeight)}, width - 0.5, kFrameHeight - 1,
            row == 0 ? "other" : std::string(style) + (row % 2 ? "" : " pale"),
            text + ", " + fixed(100 * share, 1) + " %");
    if (const int characters = static_cast<int>((width - 8) / text_width("x")); characters >= 4)
      svg.text({x + 4, row * kFrameHeight + 13.0}, shorten(text, characters), TextAnchor::start, "halo-text");
    std::vector<const std::pair<const std::string, std::unique_ptr<Node>>*> inner;
    for (const auto& each : node.inner) inner.push_back(&each);
    std::ranges::stable_sort(inner, std::greater<>(), [](const auto* each) { return each->second->bytes; });
    for (const auto* each : inner) {
      const double inner_width =
          width * static_cast<double>(each->second->bytes) / static_cast<double>(std::max<int64_t>(1, node.bytes));
      if (inner_width < kLeastWidth) break;
      put(svg, *each->second, each->first, row == 0 ? style_of(each->first) : style, x, inner_width, row + 1);
      x += inner_width;
    }
  }

  Node root_;
};

}  // namespace

std::string flame_graph(const std::vector<MemoryOfCallPath>& paths) { return FlameGraph(paths).draw(); }

}  // namespace memtune::report
