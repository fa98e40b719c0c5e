// Options of memtune-view. `memtune view` passes its arguments to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gui/pane/app.h"

namespace memtune::gui {

struct Options {
  std::vector<std::string> paths;  // one or two runs or traces
  std::string screenshot;          // file to write instead of opening a window
  int width = 1600, height = 900;  // of the picture, in pixels
  bool size_given = false;
  std::optional<float> scale;  // not given: the display's
  std::optional<Theme> theme;
  std::optional<Tab> tab;
  std::string at;                  // milliseconds, "peak", or the name of a tensor
  std::string trial, other_trial;  // strategy or number
  bool help = false;
};

std::string help_text();

// Throws UsageError that names the option, the value and what is allowed.
Options parse_options(const std::vector<std::string>& arguments);

// Opens and selects what the options name. Throws UsageError.
void apply_options(AppState& state, const Options& options);

}  // namespace memtune::gui
