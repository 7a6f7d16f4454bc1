"""One file a screen; `admin_tui.registry` names them."""
