// One file with the viewer and a run: any browser opens it, without a network and without memtune.
//
//   the page of the web build, with the mark <!-- memtune: run --> in place of
//   <script type="application/zlib;base64" id="run">, whose text is base64 of a zlib stream of an archive:
//   [["run/NAME/sweep.json", 1234], ...], a newline, then these files one after the other
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/answer/run/run_directory.h"

namespace memtune::report {

// The page of the web build, beside this program or in ../libexec/memtune. Throws UsageError with how to build it.
std::filesystem::path find_web_viewer();

struct RenderedInteractivePage {
  std::string text;
  std::vector<std::string> notes;  // files of the run that could not be read, with the reason
};

// `viewer` is that page's text. Includes what the viewer reads of each trial: figures, plan, request, trace; missing
// files are left out. Throws UsageError if `viewer` has no mark, the run has no record, or its files are more than
// `most_bytes`.
RenderedInteractivePage interactive_page(const std::string& viewer, const sweep::RunDirectory& directory,
                                         int64_t most_bytes = int64_t{1} << 30);

}  // namespace memtune::report
