#include "gui/platform/web.h"

#include <GLES3/gl3.h>
#include <emscripten.h>
#include <emscripten/html5.h>
#include <imgui.h>
#include <imgui_impl_opengl3.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "gui/platform/context.h"

// clang-format off
EM_JS(void, set_page_cursor, (const char* name), {
  document.getElementById("canvas").style.cursor = UTF8ToString(name);
});
EM_JS(void, copy_to_clipboard, (const char* text), {
  if (navigator.clipboard) navigator.clipboard.writeText(UTF8ToString(text)).catch(() => {});
});
// ImGui reads the context's state before each frame and restores it afterwards. Each question waits until the GPU has
// drawn what was sent, and nothing else draws here: the first answers stay true.
EM_JS(void, remember_graphics_state, (), {
  const known = new Map();
  const ask = GLctx.getParameter.bind(GLctx);
  GLctx.getParameter = (name) => {
    if (!known.has(name)) known.set(name, ask(name));
    return known.get(name);
  };
});
// A program that drives the page, for example a test, waits for this mark.
EM_JS(void, mark_first_frame, (), {
  const ms = Math.round(performance.now());
  document.documentElement.dataset.firstFrameMs = ms;
  console.log("memtune: first frame after " + ms + " ms");
});
// clang-format on

namespace memtune::gui {
namespace {

constexpr char kCanvas[] = "#canvas";
constexpr int kRestlessFrames = 4;  // drawn after the last input, until the sizes of windows and tables settle
constexpr double kRestMs = 500;     // then one frame per this time
constexpr double kPixelsPerStep = 100, kLinesPerStep = 3, kStepsPerPage = 8;  // of the wheel

struct NamedKey {
  const char* name;  // as the browser calls it: KeyboardEvent.key
  ImGuiKey key;
};

// Letters and digits are not listed.
constexpr NamedKey kKeys[] = {{"ArrowLeft", ImGuiKey_LeftArrow},
                              {"ArrowRight", ImGuiKey_RightArrow},
                              {"ArrowUp", ImGuiKey_UpArrow},
                              {"ArrowDown", ImGuiKey_DownArrow},
                              {"PageUp", ImGuiKey_PageUp},
                              {"PageDown", ImGuiKey_PageDown},
                              {"Home", ImGuiKey_Home},
                              {"End", ImGuiKey_End},
                              {"Insert", ImGuiKey_Insert},
                              {"Delete", ImGuiKey_Delete},
                              {"Backspace", ImGuiKey_Backspace},
                              {"Enter", ImGuiKey_Enter},
                              {"Escape", ImGuiKey_Escape},
                              {"Tab", ImGuiKey_Tab},
                              {" ", ImGuiKey_Space},
                              {"/", ImGuiKey_Slash},
                              {"?", ImGuiKey_Slash},
                              {"-", ImGuiKey_Minus},
                              {"_", ImGuiKey_Minus},
                              {"=", ImGuiKey_Equal},
                              {"+", ImGuiKey_Equal},
                              {",", ImGuiKey_Comma},
                              {".", ImGuiKey_Period},
                              {"[", ImGuiKey_LeftBracket},
                              {"]", ImGuiKey_RightBracket},
                              {"Shift", ImGuiKey_LeftShift},
                              {"Control", ImGuiKey_LeftCtrl},
                              {"Alt", ImGuiKey_LeftAlt},
                              {"Meta", ImGuiKey_LeftSuper},
                              {"F1", ImGuiKey_F1}};

// By the character, so that every layout of keys has its own.
ImGuiKey key_of(const std::string& name) {
  if (name.size() == 1 && std::isalpha(static_cast<unsigned char>(name[0])))
    return static_cast<ImGuiKey>(ImGuiKey_A + std::tolower(static_cast<unsigned char>(name[0])) - 'a');
  if (name.size() == 1 && std::isdigit(static_cast<unsigned char>(name[0])))
    return static_cast<ImGuiKey>(ImGuiKey_0 + name[0] - '0');
  const auto found =
      std::find_if(std::begin(kKeys), std::end(kKeys), [&](const NamedKey& key) { return name == key.name; });
  return found == std::end(kKeys) ? ImGuiKey_None : found->key;
}

// A key's name is either what it types, one character of one to four bytes, or a word in ASCII.
bool is_character(const std::string& name) { return name.size() == 1 || (name[0] & 0x80) != 0; }

const char* cursor_name(ImGuiMouseCursor cursor) {
  switch (cursor) {
    case ImGuiMouseCursor_TextInput: return "text";
    case ImGuiMouseCursor_ResizeAll: return "move";
    case ImGuiMouseCursor_ResizeNS: return "ns-resize";
    case ImGuiMouseCursor_ResizeEW: return "ew-resize";
    case ImGuiMouseCursor_Hand: return "pointer";
    default: return "default";
  }
}

// Events of the mouse carry them too: the page may have had no focus when the key went down.
template <class Event>
void take_modifiers(const Event& event) {
  ImGuiIO& io = ImGui::GetIO();
  io.AddKeyEvent(ImGuiMod_Ctrl, event.ctrlKey);
  io.AddKeyEvent(ImGuiMod_Shift, event.shiftKey);
  io.AddKeyEvent(ImGuiMod_Alt, event.altKey);
  io.AddKeyEvent(ImGuiMod_Super, event.metaKey);
}

class PageView {
 public:
  PageView(AppState& state, const Options& options) : state_(state), given_scale_(options.scale) {
    EmscriptenWebGLContextAttributes attributes;
    emscripten_webgl_init_context_attributes(&attributes);
    attributes.majorVersion = 2;
    attributes.alpha = attributes.depth = attributes.antialias = false;
    const EMSCRIPTEN_WEBGL_CONTEXT_HANDLE context = emscripten_webgl_create_context(kCanvas, &attributes);
    if (context <= 0) throw DeviceError("this browser has no WebGL 2");
    emscripten_webgl_make_context_current(context);
    remember_graphics_state();
    ImGuiIO& io = ImGui::GetIO();
    io.BackendPlatformName = "page";
    io.BackendFlags |= ImGuiBackendFlags_HasMouseCursors;
    ImGui::GetPlatformIO().Platform_SetClipboardTextFn = [](ImGuiContext*, const char* text) {
      copy_to_clipboard(text);
    };
    ImGui_ImplOpenGL3_Init("#version 300 es");
    listen();
  }

  void start() {
    emscripten_set_main_loop_arg([](void* self) { static_cast<PageView*>(self)->frame(); }, this, 0, false);
  }

 private:
  static PageView& of(void* data) {
    PageView& self = *static_cast<PageView*>(data);
    self.restless_ = kRestlessFrames;
    return self;
  }

  // Moves and releases are followed outside of the canvas too.
  void listen() {
    const char* window = EMSCRIPTEN_EVENT_TARGET_WINDOW;
    const auto mouse = [](int type, const EmscriptenMouseEvent* event, void* data) -> EM_BOOL {
      return of(data).mouse(type, *event);
    };
    emscripten_set_mousedown_callback(kCanvas, this, true, mouse);
    emscripten_set_mousemove_callback(window, this, true, mouse);
    emscripten_set_mouseup_callback(window, this, true, mouse);
    emscripten_set_wheel_callback(
        kCanvas, this, true,
        [](int, const EmscriptenWheelEvent* event, void* data) -> EM_BOOL { return of(data).wheel(*event); });
    const auto key = [](int type, const EmscriptenKeyboardEvent* event, void* data) -> EM_BOOL {
      return of(data).key(type == EMSCRIPTEN_EVENT_KEYDOWN, *event);
    };
    emscripten_set_keydown_callback(window, this, true, key);
    emscripten_set_keyup_callback(window, this, true, key);
    const auto focus = [](int type, const EmscriptenFocusEvent*, void* data) -> EM_BOOL {
      of(data);
      ImGui::GetIO().AddFocusEvent(type == EMSCRIPTEN_EVENT_FOCUS);
      return false;
    };
    emscripten_set_focus_callback(window, this, true, focus);
    emscripten_set_blur_callback(window, this, true, focus);
    const auto touch = [](int type, const EmscriptenTouchEvent* event, void* data) -> EM_BOOL {
      return of(data).touch(type, *event);
    };
    emscripten_set_touchstart_callback(kCanvas, this, true, touch);
    emscripten_set_touchmove_callback(kCanvas, this, true, touch);
    emscripten_set_touchend_callback(kCanvas, this, true, touch);
    emscripten_set_touchcancel_callback(kCanvas, this, true, touch);
  }

  void move_to(long x, long y) const {
    ImGui::GetIO().AddMousePosEvent(static_cast<float>(x) * ratio_, static_cast<float>(y) * ratio_);
  }

  bool mouse(int type, const EmscriptenMouseEvent& event) const {
    constexpr int kButtons[] = {0, 2, 1};  // the browser's left, middle, right
    take_modifiers(event);
    move_to(event.clientX, event.clientY);
    if (type != EMSCRIPTEN_EVENT_MOUSEMOVE && event.button < std::size(kButtons))
      ImGui::GetIO().AddMouseButtonEvent(kButtons[event.button], type == EMSCRIPTEN_EVENT_MOUSEDOWN);
    return false;  // the browser gives the page the focus
  }

  bool wheel(const EmscriptenWheelEvent& event) const {
    take_modifiers(event.mouse);
    move_to(event.mouse.clientX, event.mouse.clientY);
    const double steps = event.deltaMode == DOM_DELTA_PIXEL  ? 1 / kPixelsPerStep
                         : event.deltaMode == DOM_DELTA_LINE ? 1 / kLinesPerStep
                                                             : kStepsPerPage;
    ImGui::GetIO().AddMouseWheelEvent(static_cast<float>(-event.deltaX * steps),
                                      static_cast<float>(-event.deltaY * steps));
    return true;
  }

  // One finger is the mouse's left button.
  bool touch(int type, const EmscriptenTouchEvent& event) const {
    ImGuiIO& io = ImGui::GetIO();
    io.AddMouseSourceEvent(ImGuiMouseSource_TouchScreen);
    move_to(event.touches[0].clientX, event.touches[0].clientY);
    if (type != EMSCRIPTEN_EVENT_TOUCHMOVE) io.AddMouseButtonEvent(0, type == EMSCRIPTEN_EVENT_TOUCHSTART);
    return true;
  }

  // Returns whether the page takes the key from the browser.
  static bool key(bool down, const EmscriptenKeyboardEvent& event) {
    ImGuiIO& io = ImGui::GetIO();
    const std::string name = event.key;
    if (name.empty()) return false;
    take_modifiers(event);
    const ImGuiKey key = key_of(name);
    if (key != ImGuiKey_None) io.AddKeyEvent(key, down);
    const bool command = (event.ctrlKey || event.metaKey) && !event.altKey;  // both write characters, as AltGr does
    if (down && !command && is_character(name)) io.AddInputCharactersUTF8(name.c_str());
    // Of combinations, the browser keeps all that the viewer does not use.
    constexpr std::string_view kOwn = "f+-=0acvxz";
    const bool own = name.size() == 1 && kOwn.find(static_cast<char>(std::tolower(name[0]))) != kOwn.npos;
    return key != ImGuiKey_None && (command ? own : !event.altKey);
  }

  void resize() {
    double width = 0, height = 0;
    emscripten_get_element_css_size(kCanvas, &width, &height);
    ratio_ = static_cast<float>(emscripten_get_device_pixel_ratio());
    const int columns = std::max(1, static_cast<int>(std::lround(width * ratio_)));
    const int rows = std::max(1, static_cast<int>(std::lround(height * ratio_)));
    if (columns == columns_ && rows == rows_) return;
    columns_ = columns;
    rows_ = rows;
    emscripten_set_canvas_element_size(kCanvas, columns, rows);
    ImGui::GetIO().DisplaySize = {static_cast<float>(columns), static_cast<float>(rows)};
    state_.scale = given_scale_.value_or(ratio_);
    restless_ = kRestlessFrames;
  }

  void frame() try {
    resize();
    const double now_ms = emscripten_get_now();
    if (restless_ == 0 && now_ms - last_ms_ < kRestMs) return;
    ImGuiIO& io = ImGui::GetIO();
    io.DeltaTime = static_cast<float>(std::clamp((now_ms - last_ms_) / 1000, 0.0001, 1.0));
    last_ms_ = now_ms;
    draw();
    restless_ = had_input() ? kRestlessFrames : std::max(restless_ - 1, 0);
    if (!drawn_) mark_first_frame();
    drawn_ = true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "memtune: %s\n", error.what());
    emscripten_cancel_main_loop();
  }

  void draw() {
    if (const std::string title = window_title(state_); title != title_) {
      emscripten_set_window_title(title.c_str());
      title_ = title;
    }
    ImGui_ImplOpenGL3_NewFrame();
    ImGui::NewFrame();
    draw_app(state_);
    if (const char* cursor = cursor_name(ImGui::GetMouseCursor()); cursor != cursor_) set_page_cursor(cursor_ = cursor);
    ImGui::Render();
    glViewport(0, 0, columns_, rows_);
    const ImVec4 ground = ground_color();
    glClearColor(ground.x, ground.y, ground.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    state_.quit = false;  // a page cannot close itself
  }

  AppState& state_;
  std::optional<float> given_scale_;
  std::string title_;
  const char* cursor_ = nullptr;
  float ratio_ = 1;  // pixels of the canvas in one of the page
  int columns_ = 0, rows_ = 0;
  int restless_ = kRestlessFrames;
  double last_ms_ = 0;
  bool drawn_ = false;
};

}  // namespace

void run_page(AppState& state, const Options& options) {
  static const Context context;
  static PageView view(state, options);
  view.start();
}

}  // namespace memtune::gui
