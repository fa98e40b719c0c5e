// Why: groups and folders keep to their layer only if something fails when an #include points up.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "tests/structure/sources.h"
namespace memtune::tests::layers_test {
namespace {

bool is_torch_or_cuda(const std::string& included) {
  return std::regex_match(included, std::regex("(torch/|ATen/|c10/|caffe2/|cuda|cupti).*"));
}

bool is_drawing(const std::string& included) {
  return std::regex_match(included, std::regex("(imgui|implot|GLFW/|GL/|EGL/).*"));
}

// What is wrong with `file` including `included`; "" when nothing is.
std::string objection(const std::string& file, const std::string& included, bool quoted) {
  const Folder* from = layers().folder_of(file);
  const std::string arrow = file + " includes " + included + ": ";
  if (!from) return file + ": CMake adds no folder for it";
  if (!from->torch && is_torch_or_cuda(included)) return arrow + from->path + " is free of LibTorch and CUDA";
  if (from->path != "cli" && included.starts_with("CLI/")) return arrow + "only cli parses command lines";
  if (from->path != "core/answer/trainer" && (included == "libfyaml.h" || included.starts_with("toml++/")))
    return arrow + "only core/answer/trainer reads YAML and TOML";
  if (from->path != "core/model/adapter" && included == "pcre2.h")
    return arrow + "only core/model/adapter has patterns";
  if (from->path == "gui/model" && is_drawing(included)) return arrow + "models do not draw";
  if (file.ends_with(".h") && included == "nlohmann/json.hpp") return arrow + "headers take nlohmann/json_fwd.hpp";
  if (!quoted || included.ends_with(".inc")) return "";
  if (included.find('/') == std::string::npos) return arrow + "write the path from the root of the sources";
  const Folder* to = layers().folder_of(included);
  if (!to) return arrow + "CMake adds no folder for it";
  return layers().may_include(*from, *to) ? "" : arrow + "the include does not point down";
}

TEST_CASE("every include of core, cli and gui points down") {
  int files = 0, includes = 0;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".h", ".h.in", ".cpp", ".cpp.in", ".cu", ".cuh"})) {
    ++files;
    for (const Include& include : includes_of(source)) {
      ++includes;
      const std::string text = objection(source.path, include.name, include.quoted);
      if (!text.empty()) FAIL_CHECK(text);
    }
  }
  // Fewer would mean that the sources were not found.
  CHECK(files >= 800);
  CHECK(includes >= 3000);
}

TEST_CASE("the groups are those of core's CMakeLists.txt, bottom up") {
  CHECK(layers().groups() == std::vector<std::string>{"base", "record", "plan", "model", "engine", "measure", "answer",
                                                      "sweep", "gui", "cli"});
  CHECK(layers().folders().size() >= 40);
  CHECK(layers().folder_of("core/plan/planner/chain_planning_problem.h")->library == "planner");
  CHECK(layers().folder_of("core/answer/report/html/html.h")->path == "core/answer/report");
  CHECK(layers().folder_of("core/misc/x.h") == nullptr);
}

using Names = std::set<std::string>;

// A row of the page's table of groups.
struct GroupRow {
  Names below, plain, torch;  // groups that it may include; its folders without LibTorch, and with it
};

Names names_of(const std::string& cell) {
  Names names;
  for (std::string name : split(cell, ',')) {
    std::erase(name, '`');
    if (name = trim(name); !name.empty()) names.insert(name);
  }
  return names;
}

std::string text_of(const Names& names) { return join(std::vector<std::string>(names.begin(), names.end()), " "); }

// The table of docs/developer/architecture.md with a row for each group.
std::map<std::string, GroupRow> documented_groups(const std::string& page) {
  std::map<std::string, GroupRow> rows;
  Names above;
  for (const std::string& line : split(page, '\n')) {
    const std::vector<std::string> cells = split(line, '|');
    const std::string group = cells.size() == 7 ? trim(cells[1]) : "";
    if (!group.starts_with('`')) continue;
    const std::string name = group.substr(1, group.size() - 2);
    rows[name] = {trim(cells[2]) == "all of the above" ? above : names_of(cells[2]), names_of(cells[3]),
                  names_of(cells[4])};
    above.insert(name);
  }
  return rows;
}

std::map<std::string, GroupRow> built_groups() {
  std::map<std::string, GroupRow> rows;
  for (const Folder& folder : layers().folders()) {
    if (!folder.path.starts_with("core/")) continue;
    GroupRow& row = rows[folder.group];
    const std::string root = "core/" + folder.group;
    const std::string name = folder.path == root ? folder.group : folder.path.substr(root.size() + 1);
    (folder.torch ? row.torch : row.plain).insert(name);
    for (const Folder& other : layers().folders())
      if (other.group != folder.group && layers().may_include(folder, other)) row.below.insert(other.group);
  }
  return rows;
}

TEST_CASE("the architecture page lists the groups and folders that CMake builds") {
  std::stringstream page;
  page << std::ifstream(MEMTUNE_SOURCE_DIR "/docs/developer/architecture.md").rdbuf();
  const auto documented = documented_groups(page.str()), built = built_groups();
  REQUIRE(documented.size() == 8);
  for (const auto& [group, row] : built) {
    CAPTURE(group);
    REQUIRE(documented.contains(group));
    CHECK(text_of(documented.at(group).below) == text_of(row.below));
    CHECK(text_of(documented.at(group).plain) == text_of(row.plain));
    CHECK(text_of(documented.at(group).torch) == text_of(row.torch));
  }
  CHECK(documented.size() == built.size());
}

TEST_CASE("an include that points up or sideways is refused") {
  CHECK(objection("core/base/text.h", "core/plan/strategy/strategy.h", true) ==
        "core/base/text.h includes core/plan/strategy/strategy.h: the include does not point down");
  CHECK(objection("core/plan/strategy/strategy.cpp", "core/plan/planner/planner.h", true) != "");
  CHECK(objection("core/answer/report/report.cpp", "core/engine/disk/disk_probe.h", true) !=
        "");  // reports run nothing
  CHECK(objection("core/sweep/loop/sweep.cpp", "core/plan/strategy/strategy.h", true) == "");
  CHECK(objection("core/plan/strategy/strategy.cpp", "core/plan/strategy/strategy.h", true) == "");
}

TEST_CASE("folders that CMake builds without LibTorch include neither it nor CUDA") {
  CHECK(objection("core/sweep/loop/sweep.cpp", "torch/script.h", false) ==
        "core/sweep/loop/sweep.cpp includes torch/script.h: core/sweep/loop is free of LibTorch and CUDA");
  CHECK(objection("cli/main.cpp", "cuda_runtime.h", false) != "");
  CHECK(objection("core/plan/planner/planner.h", "ATen/ATen.h", false) != "");
  CHECK(objection("core/base/device/device.h", "ATen/ATen.h", false) != "");
  CHECK(objection("core/base/device/torch/torch_device.h", "c10/core/Device.h", false) == "");
  CHECK(objection("core/base/device/cuda/adamw_kernel.cu", "cuda_runtime.h", false) == "");
  CHECK(objection("core/base/device/cpu_emulated_device.h", "core/base/device/torch/make_device.h", true) != "");
}

TEST_CASE("libraries stay where they belong") {
  CHECK(objection("core/plan/strategy/plan.h", "nlohmann/json.hpp", false) != "");
  CHECK(objection("core/plan/strategy/plan.cpp", "nlohmann/json.hpp", false) == "");
  CHECK(objection("core/sweep/loop/sweep.cpp", "CLI/CLI.hpp", false) != "");
  CHECK(objection("core/sweep/loop/sweep.cpp", "libfyaml.h", false) != "");
  CHECK(objection("core/answer/trainer/yaml_text.cpp", "libfyaml.h", false) == "");
  CHECK(objection("core/answer/trainer/yaml_text.cpp", "pcre2.h", false) != "");
}

TEST_CASE("the viewer's panes stand on its models, and what is of a platform on both") {
  CHECK(objection("gui/pane/lanes.cpp", "gui/model/run.h", true) == "");
  CHECK(objection("gui/main.cpp", "gui/platform/window.h", true) == "");
  CHECK(objection("gui/model/run.cpp", "gui/pane/lanes.h", true) ==
        "gui/model/run.cpp includes gui/pane/lanes.h: the include does not point down");
  CHECK(objection("gui/pane/lanes.cpp", "gui/platform/window.h", true) != "");
  CHECK(objection("gui/model/run.h", "imgui.h", false) == "gui/model/run.h includes imgui.h: models do not draw");
  CHECK(objection("gui/pane/lanes.h", "imgui.h", false) == "");
}

TEST_CASE("an unknown folder and a relative include are refused") {
  CHECK(objection("core/misc/x.h", "string", false) == "core/misc/x.h: CMake adds no folder for it");
  CHECK(objection("core/base/text.cpp", "text.h", true) ==
        "core/base/text.cpp includes text.h: write the path from the root of the sources");
}

}  // namespace
}  // namespace memtune::tests::layers_test
