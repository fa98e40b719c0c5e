#include "gui/platform/options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/base/view_options.h"

namespace memtune::gui {
namespace {

constexpr char kHelp[] = R"(Look at a sweep or a trace in a window, or as a picture of it.

Examples:
  memtune view
  memtune view ./memtune-run other-run
  memtune view trace.mttrace
  memtune view --screenshot peak.png --at peak --theme light --scale 2 --size 2400x1400

Usage: memtune view [OPTIONS] [RUN|TRACE [RUN|TRACE]]     (default: ./memtune-run; ? in the window lists the keys)

Options:
)";
constexpr char kDefaultRun[] = "./memtune-run";
constexpr int64_t kMinPixels = 16, kMaxPixels = 16384;
constexpr double kPlaces = 40;  // --at TIME shows a twentieth of the trace

void read_size(const std::string& text, Options& options) {
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != 2) throw UsageError("--size: '" + text + "' is no size; give 1600x900");
  const int64_t width = parse_integer(parts[0], "--size"), height = parse_integer(parts[1], "--size");
  if (std::min(width, height) < kMinPixels || std::max(width, height) > kMaxPixels)
    throw UsageError("--size: " + text + " is out of range; it takes 16x16 to 16384x16384");
  options.width = static_cast<int>(width);
  options.height = static_cast<int>(height);
  options.size_given = true;
}

std::string read_picture(const std::string& path) {
  if (std::filesystem::path(path).extension() == ".png") return path;
  throw UsageError("--screenshot: '" + path + "' does not end in .png, and PNG is what is written");
}

float read_scale(const std::string& text) {
  const double scale = parse_number(text, "--scale");
  if (scale < 0.5 || scale > 8) throw UsageError("--scale: " + text + " is out of range; it takes 0.5 to 8");
  return static_cast<float>(scale);
}

size_t choice(const std::string& option, const std::string& text, const std::vector<std::string>& choices) {
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found == choices.end()) throw UsageError(option + ": " + unknown_name("value", text, choices));
  return static_cast<size_t>(found - choices.begin());
}

void read_option(const std::string& name, const std::string& text, Options& options) {
  if (name == "--screenshot") options.screenshot = read_picture(text);
  if (name == "--size") read_size(text, options);
  if (name == "--scale") options.scale = read_scale(text);
  if (name == "--theme") options.theme = static_cast<Theme>(choice(name, text, {"dark", "light"}));
  if (name == "--tab") options.tab = static_cast<Tab>(choice(name, text, kTabNames));
  if (name == "--at") options.at = text;
  if (name == "--trial") options.trial = text;
  if (name == "--trial2") options.other_trial = text;
}

// A time in milliseconds shows a range around it. Any other text is a tensor's name, or part of one.
ShowRequest read_place(const AppState& state, const std::string& text) {
  ShowRequest show;
  show.peak = text == "peak";
  if (show.peak) return show;
  const LoadedTrace& loaded = state.current().load();
  char* end = nullptr;
  const double time_ms = std::strtod(text.c_str(), &end);
  if (*end == 0 && end != text.c_str() && std::isfinite(time_ms)) {
    const double reach = static_cast<double>(loaded.timeline.whole.end - loaded.timeline.whole.start) / kPlaces;
    const double limit = 9e18;  // nanoseconds in 64 bits
    const double middle = std::clamp(time_ms * 1e6, -limit / 2, limit / 2);
    show.range = trace::TimeInterval{static_cast<int64_t>(middle - reach), static_cast<int64_t>(middle + reach)};
    return show;
  }
  const std::vector<trace::TracedActivationPlacement>& values = loaded.trace.values;
  auto found = std::find_if(values.begin(), values.end(),
                            [&](const trace::TracedActivationPlacement& value) { return value.name == text; });
  if (found == values.end())
    found = std::find_if(values.begin(), values.end(), [&](const trace::TracedActivationPlacement& value) {
      return value.name.find(text) != std::string::npos;
    });
  if (found == values.end())
    throw UsageError("--at: '" + text + "' is neither a time in milliseconds nor \"peak\" nor a value of the trace");
  show.value = trace::ValueId(static_cast<size_t>(found - values.begin()));
  return show;
}

bool known(const std::string& name) {
  return std::ranges::any_of(view_options(), [&](const auto& option) { return name == option.name; });
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const ViewCommandOption& option : view_options()) names.push_back(option.name);
  return names;
}

}  // namespace

std::string help_text() {
  std::string text = kHelp;
  for (const ViewCommandOption& option : view_options())
    text += "  " + pad_right(option.name + " " + option.value, 26) + "  " + option.help + "\n";
  return text;
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (!argument.starts_with("--")) {
      options.paths.push_back(argument);
    } else {
      const size_t equals = argument.find('=');
      const std::string name = argument.substr(0, equals);
      if (!known(name)) throw UsageError(unknown_name("flag", name, option_names()));
      if (equals == std::string::npos && i + 1 == arguments.size()) throw UsageError(name + " needs a value");
      read_option(name, equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1), options);
    }
  }
  if (options.paths.size() > 2) throw UsageError("at most two runs: '" + options.paths[2] + "' is a third");
  return options;
}

void apply_options(AppState& state, const Options& options) {
  for (const std::string& path : options.paths) state.run.add(path);
  const bool picture = !options.screenshot.empty();
  if (options.paths.empty() && (picture || std::filesystem::exists(kDefaultRun))) state.run.add(kDefaultRun);
  if (options.theme) state.theme = *options.theme;
  if (options.tab) state.tab = *options.tab;
  select_trial(state, options.trial.empty() ? state.run.first_trial() : state.run.find_trial(options.trial));
  if (!options.other_trial.empty()) state.other_trial = state.run.find_trial(options.other_trial);
  if (!options.at.empty() && state.has_trial()) state.show = read_place(state, options.at);
}

}  // namespace memtune::gui
