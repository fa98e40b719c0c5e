#include "core/model/frontend/library.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/open_file.h"

namespace memtune::frontend {
namespace {

// The folder of the running LibTorch. Other libraries may need parts of LibTorch that memtune does not load.
std::filesystem::path libtorch_folder() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&at::globalContext), &info);
  return info.dli_fname ? std::filesystem::path(info.dli_fname).parent_path() : std::filesystem::path();
}

// Handles "libtorch_python.so: cannot open shared object file: ..." by loading it from LibTorch's folder. Returns false
// if it is not there.
bool load_missing_part(const std::string& error) {
  const std::string name = error.substr(0, error.find(':'));
  if (error.find("cannot open shared object file") == std::string::npos || name.find('/') != std::string::npos)
    return false;
  return dlopen((libtorch_folder() / name).c_str(), RTLD_LAZY | RTLD_GLOBAL) != nullptr;
}

}  // namespace

void load_libraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    require_file("--library", path);
    while (!dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL)) {
      const std::string error = dlerror();
      if (load_missing_part(error)) continue;
      const bool of_python = error.find("libtorch_python.so") != std::string::npos ||
                             error.find("undefined symbol: _Py") != std::string::npos ||
                             error.find("undefined symbol: Py") != std::string::npos;
      const bool named = error.starts_with(path + ": ");
      throw UsageError("--library " + path + ": " + (named ? error.substr(path.size() + 2) : error) +
                       (of_python ? "; it was linked with Python: give --library libpython3.*.so before it" : ""));
    }
  }
}

}  // namespace memtune::frontend
