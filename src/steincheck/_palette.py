"""What all pictures share: their colours, and how much one of them shows."""

# distinct to colour-blind eyes, in print and on screen
MAIN_COLOUR = "#2a6fb0"  # of what is observed
CONTRAST_COLOUR = "#c2571a"  # of what it is compared with
MUTED_COLOUR = "#8a8f98"  # of lines that guide the eye
PAPER_COLOUR = "#ffffff"  # behind words
MAX_BARS = 15  # modes or parameters in one picture: more cannot be read
