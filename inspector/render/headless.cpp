// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/headless.h"

#include <GLFW/glfw3.h>  // key codes only: no function of GLFW is called here

#include <algorithm>
#include <string>
#include <utility>

#include "inspector/render/rasteriser.h"
#include "tessera/assert.h"

namespace tessera::inspector {
namespace {

/// Makes a context current, then restores what was.
class ContextScope {
 public:
  explicit ContextScope(ImGuiContext* context) : before_(ImGui::GetCurrentContext()) {
    ImGui::SetCurrentContext(context);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() { ImGui::SetCurrentContext(before_); }

 private:
  ImGuiContext* before_;
};

/// ImGui makes its first context current; here only ContextScope decides that.
ImGuiContext* create_context() {
  const ContextScope scope(ImGui::GetCurrentContext());
  return ImGui::CreateContext();
}

/// The same map as ImGui's GLFW backend has.
void map_keys(ImGuiIO& io) {
  constexpr std::pair<ImGuiKey, int> keys[] = {
      {ImGuiKey_Tab, GLFW_KEY_TAB},
      {ImGuiKey_LeftArrow, GLFW_KEY_LEFT},
      {ImGuiKey_RightArrow, GLFW_KEY_RIGHT},
      {ImGuiKey_UpArrow, GLFW_KEY_UP},
      {ImGuiKey_DownArrow, GLFW_KEY_DOWN},
      {ImGuiKey_PageUp, GLFW_KEY_PAGE_UP},
      {ImGuiKey_PageDown, GLFW_KEY_PAGE_DOWN},
      {ImGuiKey_Home, GLFW_KEY_HOME},
      {ImGuiKey_End, GLFW_KEY_END},
      {ImGuiKey_Insert, GLFW_KEY_INSERT},
      {ImGuiKey_Delete, GLFW_KEY_DELETE},
      {ImGuiKey_Backspace, GLFW_KEY_BACKSPACE},
      {ImGuiKey_Space, GLFW_KEY_SPACE},
      {ImGuiKey_Enter, GLFW_KEY_ENTER},
      {ImGuiKey_Escape, GLFW_KEY_ESCAPE},
      {ImGuiKey_KeyPadEnter, GLFW_KEY_KP_ENTER},
      {ImGuiKey_A, GLFW_KEY_A},
      {ImGuiKey_C, GLFW_KEY_C},
      {ImGuiKey_V, GLFW_KEY_V},
      {ImGuiKey_X, GLFW_KEY_X},
      {ImGuiKey_Y, GLFW_KEY_Y},
      {ImGuiKey_Z, GLFW_KEY_Z},
  };
  for (const auto& [imgui_key, glfw_key] : keys) io.KeyMap[imgui_key] = glfw_key;
}

}  // namespace

struct Headless::State {
  State(int width_px, int height_px)
      : context(create_context()),
        picture(width_px, height_px),
        surface{.textures = textures,
                .theme = {},
                .fonts = {},
                .scripted = true,
                .dropped_files = {},
                .window = {width_px, height_px, false},
                .presses = {},
                .wish = {}} {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    ImGuiContext* before = ImGui::GetCurrentContext();
    ImGui::DestroyContext(context);
    ImGui::SetCurrentContext(before == context ? nullptr : before);
  }

  ImGuiIO& io() {
    const ContextScope scope(context);
    return ImGui::GetIO();
  }

  void set_key(int glfw_key, bool down) {
    TESSERA_ASSERT(glfw_key >= 0 && glfw_key < 512, "a key is a code of GLFW");
    ImGuiIO& input = io();
    bool* keys = input.KeysDown;
    keys[glfw_key] = down;
    input.KeyCtrl = keys[GLFW_KEY_LEFT_CONTROL] || keys[GLFW_KEY_RIGHT_CONTROL];
    input.KeyShift = keys[GLFW_KEY_LEFT_SHIFT] || keys[GLFW_KEY_RIGHT_SHIFT];
    input.KeyAlt = keys[GLFW_KEY_LEFT_ALT] || keys[GLFW_KEY_RIGHT_ALT];
    input.KeySuper = keys[GLFW_KEY_LEFT_SUPER] || keys[GLFW_KEY_RIGHT_SUPER];
  }

  void set_button(int button, bool down) {
    TESSERA_ASSERT(button >= 0 && button < ImGuiMouseButton_COUNT, "a mouse has five buttons");
    io().MouseDown[button] = down;
  }

  /// REQUIRES: the context is current, outside a frame.
  void do_out_wish() {
    surface.wish.zoom = std::clamp(surface.wish.zoom, 0.5F, 3.0F);
    const bool first = font_texture == nullptr;
    if (first || surface.theme.scale != surface.wish.zoom) {
      surface.fonts = load_fonts(ImGui::GetIO(), surface.wish.zoom);
      upload_fonts();
    }
    if (first || surface.theme.kind != surface.wish.kind ||
        surface.theme.scale != surface.wish.zoom) {
      surface.theme = apply_theme(surface.wish.kind, surface.wish.zoom);
    }
  }

  /// REQUIRES: the context is current, after a frame.
  void rasterise_frame() {
    std::fill(picture.pixels.begin(), picture.pixels.end(), surface.theme.ground);
    rasterise(*ImGui::GetDrawData(), picture);
  }

  void upload_fonts() {
    unsigned char* bytes = nullptr;
    Texture texture{.sampling = Sampling::linear};
    ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    atlas.GetTexDataAsRGBA32(&bytes, &texture.width, &texture.height);
    const auto* pixels = reinterpret_cast<const std::uint32_t*>(bytes);
    texture.pixels.assign(pixels,
                          pixels + static_cast<std::size_t>(texture.width) * texture.height);
    if (font_texture == nullptr) {
      font_texture = textures.create(std::move(texture));
    } else {
      textures.update(font_texture, std::move(texture));
    }
    atlas.SetTexID(font_texture);
  }

  ImGuiContext* context;
  SoftwareTextureStore textures;
  ImTextureID font_texture = nullptr;
  FrameBuffer picture;
  int vertex_count = 0;
  Surface surface;
};

Headless::Headless(int width_px, int height_px, ThemeKind kind, float scale)
    : state_(std::make_unique<State>(width_px, height_px)) {
  const ContextScope scope(state_->context);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.LogFilename = nullptr;
  io.DisplaySize = {static_cast<float>(width_px), static_cast<float>(height_px)};
  io.DeltaTime = 1.0F / 60.0F;
  io.ConfigInputTextCursorBlink = false;
  io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
  map_keys(io);
  state_->surface.wish.kind = kind;
  state_->surface.wish.zoom = scale;
  state_->do_out_wish();
}

Headless::~Headless() = default;

void Headless::move_mouse(float x, float y) { state_->io().MousePos = {x, y}; }
void Headless::press_mouse(int button) { state_->set_button(button, true); }
void Headless::release_mouse(int button) { state_->set_button(button, false); }

void Headless::turn_wheel(float up, float right) {
  state_->io().MouseWheel += up;
  state_->io().MouseWheelH += right;
}

void Headless::press_key(int glfw_key, bool repeat) {
  state_->set_key(glfw_key, true);
  const ImGuiIO& input = state_->io();
  const int mods = (input.KeyShift ? GLFW_MOD_SHIFT : 0) | (input.KeyCtrl ? GLFW_MOD_CONTROL : 0) |
                   (input.KeyAlt ? GLFW_MOD_ALT : 0);
  state_->surface.presses.push_back({glfw_key, mods, repeat});
}
void Headless::release_key(int glfw_key) { state_->set_key(glfw_key, false); }

void Headless::type(std::string_view utf8) {
  state_->io().AddInputCharactersUTF8(std::string(utf8).c_str());
}

void Headless::drop_file(std::string_view path) {
  state_->surface.dropped_files.emplace_back(path);
}

void Headless::step(const std::function<void(Surface&)>& draw) {
  const ContextScope scope(state_->context);
  state_->do_out_wish();
  ImGui::NewFrame();
  draw(state_->surface);
  ImGui::Render();
  state_->surface.dropped_files.clear();
  state_->surface.presses.clear();
  state_->vertex_count = ImGui::GetDrawData()->TotalVtxCount;
  std::string& path = state_->surface.wish.picture;
  if (path.empty()) return;
  state_->rasterise_frame();
  state_->surface.picture_done = write_png(state_->picture, path);
  path.clear();
}

const FrameBuffer& Headless::frame(const std::function<void(Surface&)>& draw) {
  step(draw);
  const ContextScope scope(state_->context);
  state_->rasterise_frame();
  return state_->picture;
}

const FrameBuffer& Headless::frames(int count, const std::function<void(Surface&)>& draw) {
  TESSERA_ASSERT(count >= 1, "at least one frame is needed for a picture");
  for (int i = 1; i < count; ++i) step(draw);
  return frame(draw);
}

const FrameBuffer& Headless::picture() const { return state_->picture; }
Surface& Headless::surface() { return state_->surface; }
const ImDrawData& Headless::draw_data() const {
  const ContextScope scope(state_->context);
  return *ImGui::GetDrawData();
}
int Headless::vertex_count() const { return state_->vertex_count; }

}  // namespace tessera::inspector
