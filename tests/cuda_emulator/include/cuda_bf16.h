// Stands for CUDA's header: emulator.h has the type already.
#pragma once
