// Why: folders respect the layers only if an #include that points up fails a test. Reads the sources.
#include <doctest/doctest.h>

#include <regex>
#include <set>
#include <string>

#include "tests/structure/sources.h"

namespace memtune::tests {
namespace {

// These build in seconds on any machine.
const std::set<std::string> kTorchFree = {"base",   "config",  "trace",     "disk",     "safetensors", "device",
                                          "tier",   "gather",  "state",     "result",   "plan",        "findings",
                                          "report", "trainer", "sweep",     "process",  "launch",      "attach",
                                          "cli",    "gui",     "gui/model", "gui/pane", "gui/platform"};

bool is_torch_or_cuda(const std::string& included) {
  return std::regex_match(included, std::regex("(torch/|ATen/|c10/|caffe2/|cuda|cupti).*"));
}

bool is_drawing(const std::string& included) {
  return std::regex_match(included, std::regex("(imgui|implot|GLFW/|GL/|EGL/).*"));
}

// The problem if `file` includes `included`; "": none.
std::string objection(const std::string& file, const std::string& included, bool quoted) {
  const std::string from = folder_of(file);
  const std::string to = folder_of(included);
  const std::string arrow = file + " includes " + included + ": ";
  if (layer_of(from) < 0) return file + ": its folder is in no layer";
  if (kTorchFree.contains(from) && is_torch_or_cuda(included)) {
    return arrow + from + " is free of LibTorch and CUDA";
  }
  if (from != "cli" && included.starts_with("CLI/")) return arrow + "only cli parses command lines";
  if (from == "gui/model" && is_drawing(included)) return arrow + "models do not draw";
  if (file.ends_with(".h") && included == "nlohmann/json.hpp") return arrow + "headers take nlohmann/json_fwd.hpp";
  if (!quoted) return "";
  if (to.empty()) return arrow + "write the path from the root of the sources";
  if (layer_of(to) < 0) return arrow + to + " is in no layer";
  if (from != to && layer_of(to) >= layer_of(from)) return arrow + "the arrow does not point down";
  return "";
}

TEST_CASE("every include of core, cli and gui points down") {
  int files = 0, includes = 0;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".h", ".cpp"})) {
    ++files;
    for (const Include& include : includes_of(source)) {
      ++includes;
      const std::string text = objection(source.path, include.name, include.quoted);
      if (!text.empty()) FAIL_CHECK(text);
    }
  }
  // Fewer would mean that the sources were not found.
  CHECK(files >= 40);
  CHECK(includes >= 150);
}

TEST_CASE("an arrow that points up or sideways is refused") {
  CHECK(objection("core/base/text.h", "core/plan/strategy.h", true) ==
        "core/base/text.h includes core/plan/strategy.h: the arrow does not point down");
  CHECK(objection("core/plan/strategy.cpp", "core/report/table.h", true) ==
        "core/plan/strategy.cpp includes core/report/table.h: the arrow does not point down");
  CHECK(objection("core/trace/file.cpp", "core/config/plan.h", true) != "");
  CHECK(objection("core/sweep/sweep.cpp", "core/plan/strategy.h", true) == "");
  CHECK(objection("core/plan/strategy.cpp", "core/plan/strategy.h", true) == "");
}

TEST_CASE("the LibTorch-free folders may not include LibTorch or CUDA") {
  CHECK(objection("core/sweep/sweep.cpp", "torch/script.h", false) ==
        "core/sweep/sweep.cpp includes torch/script.h: sweep is free of LibTorch and CUDA");
  CHECK(objection("cli/main.cpp", "cuda_runtime.h", false) != "");
  CHECK(objection("core/plan/strategy.h", "ATen/ATen.h", false) != "");
  CHECK(objection("core/device/device.h", "ATen/ATen.h", false) != "");
  CHECK(objection("core/device/torch/torch_device.h", "c10/core/Device.h", false) == "");
  CHECK(objection("core/device/cpu_device.h", "core/device/torch/make_device.h", true) != "");
}

TEST_CASE("libraries stay where they belong") {
  CHECK(objection("core/config/plan.h", "nlohmann/json.hpp", false) != "");
  CHECK(objection("core/config/plan.cpp", "nlohmann/json.hpp", false) == "");
  CHECK(objection("core/sweep/sweep.cpp", "CLI/CLI.hpp", false) != "");
}

TEST_CASE("the viewer's panes stand on its models, and what is of a platform on both") {
  CHECK(objection("gui/pane/lanes.cpp", "gui/model/run.h", true) == "");
  CHECK(objection("gui/main.cpp", "gui/platform/window.h", true) == "");
  CHECK(objection("gui/model/run.cpp", "gui/pane/lanes.h", true) ==
        "gui/model/run.cpp includes gui/pane/lanes.h: the arrow does not point down");
  CHECK(objection("gui/pane/lanes.cpp", "gui/platform/window.h", true) != "");
  CHECK(objection("gui/model/run.h", "imgui.h", false) == "gui/model/run.h includes imgui.h: models do not draw");
  CHECK(objection("gui/pane/lanes.h", "imgui.h", false) == "");
}

TEST_CASE("an unknown folder and a relative include are refused") {
  CHECK(objection("core/misc/x.h", "string", false) == "core/misc/x.h: its folder is in no layer");
  CHECK(objection("core/base/text.cpp", "text.h", true) ==
        "core/base/text.cpp includes text.h: write the path from the root of the sources");
}

}  // namespace
}  // namespace memtune::tests
