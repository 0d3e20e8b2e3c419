import { useLayoutEffect } from 'preact/hooks'

/** How many parts of the page hold what somebody entered and did not save. */
let holders = 0

export const holdsUnsaved = () => holders > 0

/** Whether nothing is lost by leaving what is open, or the reader agrees to lose it. */
export const mayLeave = () =>
  !holdsUnsaved() || window.confirm('What you entered is not saved. Leave it?')

/** Asks before what is entered here is lost. */
export function useUnsaved(isUnsaved: boolean): void {
  useLayoutEffect(() => {
    if (!isUnsaved) return
    const ask = (event: Event) => event.preventDefault()
    holders++
    window.addEventListener('beforeunload', ask)
    return () => {
      holders--
      window.removeEventListener('beforeunload', ask)
    }
  }, [isUnsaved])
}
