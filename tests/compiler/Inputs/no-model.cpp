#include "compiler/Frontend.h"
