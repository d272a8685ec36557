// SPDX-License-Identifier: Apache-2.0
// Draws ImDrawData into a FrameBuffer without OpenGL or a display.
//
// The idea: positions become 1/256 pixels and coverage, interpolation and blending are integer
// arithmetic from there on, so every compiler and optimisation level gives the same picture.
//
//   FrameBuffer picture(1280, 720);
//   rasterise(*ImGui::GetDrawData(), picture);      // texture ids are SoftwareTextureStore's
#pragma once

#include <imgui.h>

#include "inspector/render/frame_buffer.h"

namespace tessera::inspector {

/// Blends all draw lists over what `target` holds (source over, straight alpha), in GL's pixel
/// rules: a pixel is covered when its centre is; scissor to the command's clip rectangle. Texture
/// ids must be addresses of Texture (SoftwareTextureStore); a null id draws as white. Vertices
/// further than 16,384 px from the origin are pulled in to that distance.
void rasterise(const ImDrawData& data, FrameBuffer& target);

}  // namespace tessera::inspector
