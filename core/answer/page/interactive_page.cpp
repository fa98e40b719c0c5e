#include "core/answer/page/interactive_page.h"

#include <zlib.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

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
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i) text += at + i > bytes.size() ? '=' : kDigits[group >> (18 - 6 * i) & 63];
  }
  return text;
}

// Files of a run, one after the other, with their paths and sizes.
class Archive {
 public:
  explicit Archive(const sweep::RunDirectory& directory) : directory_(directory) {
    const fs::path whole = fs::absolute(directory.root()).lexically_normal();
    name_ = "run/" + (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  }

  void add(const std::string& path) {
    bytes_ += read_file(directory_ / path, directory_.files());
    index_.push_back({name_ + "/" + path, bytes_.size() - total_});
    total_ = bytes_.size();
  }

  void add_if_there(const std::string& path) try { add(path); } catch (const IoError&) {
    // The viewer shows a trial without it.
  }

  std::string text() const {
    return index_.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n" + bytes_;
  }

 private:
  const sweep::RunDirectory& directory_;
  std::string name_, bytes_;
  size_t total_ = 0;
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

std::string interactive_page(const std::string& viewer, const sweep::RunDirectory& directory) {
  const size_t mark = viewer.find(kMark);
  if (mark == std::string::npos) throw UsageError("the viewer for browsers is damaged; scripts/web builds it again");
  Archive archive(directory);
  archive.add("sweep.json");
  for (const sweep::TrialSpec& trial : directory.read_record().trials) {
    if (trial.folder.empty()) continue;
    for (const char* name : {"measurement.json", "plan.json", "request.json", "trace.mttrace"})
      archive.add_if_there(trial.folder + "/" + name);
  }
  return viewer.substr(0, mark) + "<script type=\"application/zlib;base64\" id=\"run\">" +
         base64(compressed(archive.text())) + "</script>" + viewer.substr(mark + sizeof kMark - 1);
}

}  // namespace memtune::report
