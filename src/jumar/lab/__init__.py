"""The lab: finds the operator that gives wrong answers, hangs or kills. It knows no models."""
