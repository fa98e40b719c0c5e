#include "core/measure/process/log.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/base/message.h"
#include "core/base/text.h"

namespace memtune::process {
namespace {

constexpr int64_t kMaxBytes = int64_t{8} << 20;  // written to the file as they arrive
constexpr size_t kEndBytes = size_t{64} << 10;
constexpr size_t kLastLines = 2;
constexpr const char* kNoMemory = "out of memory. Tried to allocate";  // PyTorch's message; more lines may follow it

}  // namespace

ProcessLog::ProcessLog(std::filesystem::path path, FileSystem& files) : path_(std::move(path)), files_(files) {
  if (path_.empty()) return;
  files_.unlink(path_);  // it may have other hard links, whose content must not change
  const int file = files_.open(path_, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (file < 0) throw_io_error("write", path_, -file);
  file_ = FileDescriptor(file);
}

void ProcessLog::add(std::string_view bytes) {
  const int64_t room = kMaxBytes - said_bytes_;
  if (room > 0) write(bytes.substr(0, static_cast<size_t>(room)));
  said_bytes_ += static_cast<int64_t>(bytes.size());
  end_ += bytes;
  if (end_.size() > 2 * kEndBytes) end_.erase(0, end_.size() - kEndBytes);
}

void ProcessLog::write(std::string_view bytes) {
  while (file_.get() >= 0 && !bytes.empty()) {
    const int64_t count = files_.write(file_.get(), bytes.data(), static_cast<int64_t>(bytes.size()));
    if (count == -EINTR) continue;
    if (count <= 0) file_ = FileDescriptor();
    const auto written = static_cast<size_t>(std::max<int64_t>(count, 0));
    written_bytes_ += static_cast<int64_t>(written);
    bytes.remove_prefix(written);
  }
}

void ProcessLog::finish() {
  const int64_t rest = said_bytes_ - written_bytes_;
  if (rest <= 0) return;
  const auto kept = static_cast<size_t>(std::min<int64_t>(rest, static_cast<int64_t>(end_.size())));
  write("\n[memtune: " + std::to_string(rest - static_cast<int64_t>(kept)) + " bytes are left out here]\n");
  write(std::string_view(end_).substr(end_.size() - kept));
}

std::string ProcessLog::log_tail() const {
  constexpr size_t kLastBytes = 8192, kMaxLine = 160;
  const auto mentions_memory = [](const std::string& line) { return line.find(kNoMemory) != std::string::npos; };
  std::vector<std::string> last;
  for (std::string& line : split(end_.substr(end_.size() - std::min(end_.size(), kLastBytes)), '\n')) {
    std::erase_if(line, [](unsigned char c) { return c < ' ' || c == 127; });
    if (line = trim(line); !line.empty()) last.push_back(bounded_message(line, kMaxLine));
    if (last.size() <= kLastLines) continue;
    const bool keeps_first = mentions_memory(last[0]) && std::none_of(last.begin() + 1, last.end(), mentions_memory);
    last.erase(last.begin() + (keeps_first ? 1 : 0));
  }
  if (!last.empty()) return "last lines of its log: " + join(last, " | ");
  return "it logged nothing" + (path_.empty() ? "" : " (" + path_.string() + " is empty)");
}

}  // namespace memtune::process
