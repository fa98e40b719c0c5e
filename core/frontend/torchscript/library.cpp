#include "core/frontend/torchscript/library.h"

#include <dlfcn.h>

#include "core/base/error.h"

namespace memtune::frontend {

void load_libraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    if (!dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL)) throw UsageError("--library " + path + ": " + dlerror());
}

}  // namespace memtune::frontend
