#include "core/answer/page/rendered_interactive_page.h"

#include <sodium.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune::report {
namespace {

namespace fs = std::filesystem;

constexpr char kViewerFile[] = "memtune-view.html";
constexpr char kMark[] = "<!-- memtune: run -->";

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string text(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(text.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_COMPRESSION);
  if (result != Z_OK) throw OutOfHostMemoryError("no memory to compress " + std::to_string(bytes.size()) + " bytes");
  text.resize(size);
  return text;
}

std::string base64(const std::string& bytes) {
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                    sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();  // the zero at its end
  return text;
}

// Files of a run, one after the other, with their paths and sizes.
class Archive {
 public:
  Archive(const sweep::RunDirectory& directory, int64_t most_bytes) : directory_(directory), most_bytes_(most_bytes) {
    const fs::path whole = fs::absolute(directory.root()).lexically_normal();
    name_ = "run/" + (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  }

  void add(const std::string& path) {
    const std::string file = read_file(directory_ / path, directory_.files());
    if (static_cast<int64_t>(bytes_.size() + file.size()) > most_bytes_)
      throw UsageError("--interactive: the run's files are more than " + format_bytes(most_bytes_) +
                       ", too much for a page; memtune view shows it");
    bytes_ += file;
    index_.push_back({name_ + "/" + path, file.size()});
  }

  // The viewer shows a trial without it.
  void add_if_there(const std::string& path) try {
    if (fs::symlink_status(directory_ / path).type() != fs::file_type::not_found) add(path);
  } catch (const IoError& error) {
    notes_.push_back(path + " is left out: " + error.what());
  }

  std::string text() const {
    return index_.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n" + bytes_;
  }

  std::vector<std::string> notes() const { return notes_; }

 private:
  const sweep::RunDirectory& directory_;
  int64_t most_bytes_;
  std::string name_, bytes_;
  std::vector<std::string> notes_;
  nlohmann::json index_ = nlohmann::json::array();
};

}  // namespace

fs::path find_web_viewer() {
  const fs::path folder = executable_path().parent_path();
  for (const fs::path& path : {folder / kViewerFile, folder.parent_path() / "libexec/memtune" / kViewerFile})
    if (fs::exists(path)) return path;
  throw UsageError(
      "--interactive: the viewer for browsers is not built; scripts/web builds it, with Emscripten (Debian: "
      "emscripten)");
}

RenderedInteractivePage interactive_page(const std::string& viewer, const sweep::RunDirectory& directory,
                                         int64_t most_bytes) {
  const size_t mark = viewer.find(kMark);
  if (mark == std::string::npos) throw UsageError("the viewer for browsers is damaged; scripts/web builds it again");
  const sweep::SweepJsonSettingsFactsAndTrials record = directory.read_record();
  Archive archive(directory, most_bytes);
  archive.add("sweep.json");
  for (const sweep::SweepTrialEntry& trial : record.trials) {
    if (trial.folder.empty()) continue;
    for (const char* name : {"measurement.json", "plan.json", "request.json", "trace.mttrace"})
      archive.add_if_there(trial.folder + "/" + name);
  }
  return {viewer.substr(0, mark) + "<script type=\"application/zlib;base64\" id=\"run\">" +
              base64(compressed(archive.text())) + "</script>" + viewer.substr(mark + sizeof kMark - 1),
          archive.notes()};
}

}  // namespace memtune::report
