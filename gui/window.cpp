#include "gui/window.h"

#include "core/base/error.h"

namespace memtune::gui {

void run_window(AppState&, const Options&) { throw UsageError("no window yet; --screenshot FILE draws a picture"); }

}  // namespace memtune::gui
