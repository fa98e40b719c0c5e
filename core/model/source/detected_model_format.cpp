#include "core/model/source/detected_model_format.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/open_file.h"
#include "core/model/pt2/zip_directory.h"

namespace memtune::model {
namespace {

namespace fs = std::filesystem;

const char* const kHowToSave =
    "; save the model with torch.export.save(torch.export.export(...), path) or torch.jit.trace(...).save(path)";
constexpr int64_t kStart = 1 << 16;         // bytes at the file's start that show its kind
constexpr uint64_t kMaxPacked = 256 << 20;  // tensors are stored uncompressed; compressed code is small

// Little-endian integer; missing bytes count as 0.
uint64_t number(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size && at + i < bytes.size(); ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

std::string part(const RandomAccessFileReader& file, uint64_t begin, uint64_t most) {
  const auto size = static_cast<uint64_t>(file.size());
  if (begin >= size) return "";
  std::string bytes(std::min(most, size - begin), '\0');
  file.read(bytes.data(), static_cast<int64_t>(bytes.size()), static_cast<int64_t>(begin));
  return bytes;
}

// A pickled module names fields of torch.nn.Module. A state_dict holds tensors only.
bool holds_module(const RandomAccessFileReader& file, const ZipDirectoryEntry& pickle) {
  const std::string text = part(file, pickle.offset, std::min<uint64_t>(pickle.stored_bytes, 1 << 20) + 1024);
  return text.find("_modules") != std::string::npos && text.find("_parameters") != std::string::npos;
}

// Detects zip bombs: only a hostile archive unpacks to much more than its own size. Returns the reason, or "".
std::string unpacks_to(const std::vector<ZipDirectoryEntry>& records, int64_t file_bytes) {
  const uint64_t most = static_cast<uint64_t>(file_bytes) + kMaxPacked;
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t sum = 0;
  for (const ZipDirectoryEntry& record : records) sum += std::min(record.unpacked_bytes, kLargest - sum);
  if (sum <= most) return "";
  return "its " + format_bytes(file_bytes) + " unpack to " + format_bytes(static_cast<int64_t>(sum));
}

std::string archive(const RandomAccessFileReader& file, DetectedModelFormat& found) {
  const auto records = read_zip_directory(zip_bytes(file));
  if (!records) return "it is damaged or cut off: the archive's directory is missing or invalid";
  const ZipDirectoryEntry* pickle = nullptr;
  for (const ZipDirectoryEntry& record : *records) {
    found.records.push_back(record.name.substr(record.name.find('/') + 1));
    if (found.records.back() == "data.pkl") pickle = &record;
  }
  if (found.has("constants.pkl") && found.has("code/")) return unpacks_to(*records, file.size());
  found.exported = found.has("models/");
  if (found.exported) return unpacks_to(*records, file.size());
  if (found.has("serialized_exported_program"))
    return "it is a torch.export archive of an older torch: save it again with torch 2.11";
  if (found.has("archive_format"))
    return std::string("it is a torch.export archive without a program, as AOTInductor writes") + kHowToSave;
  if (pickle && holds_module(file, *pickle))
    return std::string("it is a module pickled by torch.save, whose code is in Python alone") + kHowToSave;
  if (pickle) return std::string("it is a state_dict: torch.save wrote weights, no code") + kHowToSave;
  return std::string("it is a zip archive without TorchScript code") + kHowToSave;
}

bool is_safetensors(std::string_view start, int64_t size) {
  const uint64_t header = number(start, 0, 8);
  return start.size() > 9 && start[8] == '{' && header < static_cast<uint64_t>(size);
}

bool is_config(std::string_view start) {
  const size_t first = start.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && start[first] == '{' &&
         start.find("\"model_type\"") != std::string_view::npos;
}

std::string other(std::string_view start, int64_t size) {
  const auto save = [](const char* what) { return what + std::string(kHowToSave); };
  if (is_safetensors(start, size)) return save("it is a safetensors file: weights, no code");
  if (start.starts_with("GGUF")) return save("it is a GGUF file: weights, no code");
  if (start.starts_with("\x80")) return save("it is a pickle, as old versions of torch.save write: no TorchScript");
  return save("it is no zip archive, so no TorchScript");
}

std::string look(const fs::path& path, DetectedModelFormat& found, const std::string& what = "it") {
  std::error_code error;
  if (!fs::exists(path, error)) return "there is no such file";
  if (fs::is_directory(path, error)) {
    if (!fs::exists(path / "config.json", error))
      return "it is a folder, not a TorchScript file, and has no config.json";
    return look(path / "config.json", found, "its config.json");
  }
  if (const std::string other = other_than_file(path); !other.empty())
    return what + " is " + other + "; a regular file is needed";
  const RandomAccessFileReader file(path);
  if (file.size() == 0) return "it is empty";
  const std::string start = part(file, 0, kStart);
  if (start.starts_with("PK\3\4")) return archive(file, found);
  if (!is_config(start) && path.extension() != ".json") return other(start, file.size());
  found.config = path;
  return "";
}

}  // namespace

bool DetectedModelFormat::has(const std::string& start) const {
  return std::any_of(records.begin(), records.end(), [&](const auto& name) { return name.starts_with(start); });
}

DetectedModelFormat inspect_model_file(const fs::path& path) {
  DetectedModelFormat found;
  try {
    found.unusable_reason = look(path, found);
  } catch (const IoError& error) {
    found.unusable_reason = error.what();
  }
  return found;
}

void refuse_model(const std::string& path, const std::string& why) {
  throw UsageError("cannot use the model '" + path + "': " + why);
}

}  // namespace memtune::model
