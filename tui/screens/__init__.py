"""The screens beside the viewer. Each leads into the message list and is there again on the way back."""
