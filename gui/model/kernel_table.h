// Kernels of a stretch of time, summed by name and by module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/record/trace/time_interval.h"
#include "core/record/trace/trace_event.h"
#include "gui/model/view_state.h"

namespace memtune::gui {

struct KernelSum {
  std::string name;    // of the kernel, or of the module
  std::string module;  // that its kernels ran in, "layers.*"; "several"; "" if unknown
  size_t count = 0;
  int64_t ns = 0;  // within the stretch
};

struct KernelTable {
  trace::TimeInterval range;
  int64_t total_ns = 0;                     // of all kernels; those of several streams may overlap
  std::vector<KernelSum> kernels, modules;  // the longest first
};

// Similar blocks are one module. Of several ranks, the kernels of the measured one.
KernelTable kernels_between(const trace::Trace& trace, trace::TimeInterval range);

// The stretch that the user chose: between two marks, or the selected step, phase or part of the model.
std::optional<trace::TimeInterval> chosen_range(const ViewState& view, const trace::Trace& trace);

}  // namespace memtune::gui
